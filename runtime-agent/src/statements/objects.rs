//! What is known of connections and statements, by identity hash: a hash does not keep its object alive.

use super::generations::Generations;
use super::texts::{self, Text};
use super::urls::UrlId;

/// So many in a generation: more statements are not prepared and still used at a time.
const MOST: usize = 100_000;
const MOST_CONNECTIONS: usize = 10_000;

/// A statement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Object {
    /// Its database.
    pub url: UrlId,
    /// The text of a prepared statement, or of a batch's first statement.
    pub text: Text,
    /// Whether the text is a batch's, and whether the batch has others.
    pub is_batch: bool,
    pub has_others: bool,
}

static OBJECTS: Generations<Object> = Generations::new(MOST);
/// Databases by connection. A pool's may be idle for long.
static CONNECTIONS: Generations<UrlId> = Generations::new(MOST_CONNECTIONS);

/// The statement with an identity hash.
pub(super) fn get(hash: u32) -> Object {
    OBJECTS.get(u64::from(hash)).unwrap_or_default()
}

/// The database of the connection with an identity hash.
pub(super) fn url_of(hash: u32) -> UrlId {
    CONNECTIONS.get(u64::from(hash)).unwrap_or_default()
}

pub(super) fn set_url_of(hash: u32, url: UrlId) {
    CONNECTIONS.insert(u64::from(hash), url);
}

pub(super) fn set(hash: u32, object: Object) {
    OBJECTS.insert(u64::from(hash), object);
}

/// A text is added to the batch of a statement.
pub(super) fn add_to_batch(hash: u32, text: Text) {
    let before = get(hash);
    let object = match before.is_batch {
        true => Object { has_others: before.has_others || before.text.id != text.id, ..before },
        false => Object { text, is_batch: true, has_others: false, ..before },
    };
    set(hash, object);
}

/// The batch of a statement is executed, or cleared.
pub(super) fn end_batch(hash: u32) {
    let before = get(hash);
    if before.is_batch {
        set(hash, Object { text: Text::default(), is_batch: false, has_others: false, ..before });
    }
}

/// Calls `visit` with each statement.
pub(super) fn for_each(visit: impl FnMut(&Object)) {
    OBJECTS.for_each(visit);
}

pub(super) fn age() {
    OBJECTS.age();
    CONNECTIONS.age();
}

pub(super) fn clear() {
    OBJECTS.clear();
    CONNECTIONS.clear();
}

impl Object {
    /// The text that is executed.
    pub(super) fn executed(&self) -> Text {
        let id = match self.has_others {
            true => texts::with_others(self.text.id),
            false => self.text.id,
        };
        Text { id, ..self.text }
    }
}
