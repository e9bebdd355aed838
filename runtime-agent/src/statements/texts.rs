//! Texts of statements by number. What a text is without literals is found once, and found again by a hash of it.
#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use jvmti_bindings::env::JniEnv;
use jvmti_bindings::prelude::jni;
use log_format::writer::one_line;

use super::generations::Generations;
use super::literals::without_literals;
use super::urls::{self, UrlId};
use crate::jvm::java_strings;
use crate::sys::memory::Account;

/// Most texts at a time. Others are one: [`OTHERS`].
const MOST: usize = 4_000;
/// Numbers are below this.
pub(super) const MOST_NUMBERS: u64 = 1 << 32;
/// Texts as they came whose number is known, in a generation.
const MOST_KNOWN: usize = 8_192;
/// So many texts with literals are kept in a generation, and so many characters of each.
const MOST_RAW: usize = 500;
const LONGEST_RAW: usize = 4_000;
/// Behind the first text of a batch with others.
const WITH_OTHERS: &str = "; ...";

/// The number of a text without literals; 0 if it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TextId(u32);

/// Of all texts beyond [`MOST`].
const OTHERS: TextId = TextId(1);

impl TextId {
    pub(super) const fn new(number: u32) -> Self {
        Self(number)
    }

    pub(super) const fn get(self) -> u32 {
        self.0
    }

    /// Whether it is not known.
    pub(super) const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// A text: its number, and a hash of what it was with its literals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text {
    pub id: TextId,
    pub raw: u32,
}

static KNOWN: Generations<Text> = Generations::new(MOST_KNOWN);
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
static WITH_LITERALS: AtomicBool = AtomicBool::new(false);
/// The memory of texts.
static MEMORY: Account = Account::new();
static TEXTS: LazyLock<Mutex<Texts>> = LazyLock::new(Mutex::default);
static RAW: LazyLock<Mutex<Raw>> = LazyLock::new(Mutex::default);

/// Texts with their literals by hash: those that came last, and those before.
type Raw = [HashMap<u32, Arc<str>>; 2];

#[derive(Debug, Default)]
struct Texts {
    numbers: HashMap<Arc<str>, u32>,
    names: HashMap<u32, Arc<str>>,
    /// The last number.
    last: u32,
}

fn texts() -> MutexGuard<'static, Texts> {
    TEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Texts {
    fn number(&mut self, text: &str) -> TextId {
        if let Some(number) = self.numbers.get(text) {
            return TextId(*number);
        }
        self.last = self.last.max(OTHERS.0);
        if self.numbers.len() >= MOST
            || u64::from(self.last) + 1 >= MOST_NUMBERS
            || !MEMORY.take(bytes_of(text))
        {
            return OTHERS;
        }
        self.last += 1;
        let text: Arc<str> = text.into();
        self.names.insert(self.last, text.clone());
        self.numbers.insert(text, self.last);
        TextId(self.last)
    }

    /// Forgets texts that are not used and whose numbers are not above `last`, the youngest when the last hour began.
    fn retain(&mut self, used: &HashSet<TextId>, last: u32) {
        let stays = |number: u32| number > last || used.contains(&TextId(number));
        self.names.retain(|number, _| stays(*number));
        self.numbers.retain(|text, number| {
            let stays = stays(*number);
            if !stays {
                MEMORY.give(bytes_of(text));
            }
            stays
        });
    }
}

/// Approximately.
const fn bytes_of(text: &str) -> usize {
    text.len() + 100
}

/// Whether texts are kept with their literals.
pub(super) fn keep_literals(keep: bool) {
    WITH_LITERALS.store(keep, Ordering::Relaxed);
}

/// The text of a statement at this database.
///
/// # Safety
/// `string` is a live reference of this thread to a string, or null.
pub(super) unsafe fn text(jni: &JniEnv, string: jni::jstring, url: UrlId) -> Text {
    // SAFETY: the caller guarantees it.
    let Some(units) = (unsafe { java_strings::units(jni, string) }) else { return Text::default() };
    let hash = HASHER.hash_one(&units);
    // Databases read a text differently.
    let key = hash ^ u64::from(url.get()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let whole = || String::from_utf16_lossy(&units);
    let text = KNOWN.get(key).unwrap_or_else(|| {
        let plain = without_literals(&whole(), urls::dialect(url));
        let mut texts = texts();
        // The same hash whatever the database.
        let raw = u32::try_from(hash >> 32).unwrap_or_default();
        let text = Text { id: texts.number(&plain), raw };
        // With the lock: nobody forgets the number meanwhile.
        KNOWN.insert(key, text);
        text
    });
    if WITH_LITERALS.load(Ordering::Relaxed) {
        keep(text.raw, whole);
    }
    text
}

/// The number of a batch whose first text has this number.
pub(super) fn with_others(first: TextId) -> TextId {
    if first.is_none() || first == OTHERS {
        return first;
    }
    let mut texts = texts();
    match texts.names.get(&first.0) {
        Some(text) => {
            let text = format!("{text}{WITH_OTHERS}");
            texts.number(&text)
        }
        None => TextId::default(),
    }
}

/// The text with a number.
pub(super) fn name(id: TextId) -> String {
    match id {
        OTHERS => "[other statements]".to_owned(),
        _ => texts()
            .names
            .get(&id.0)
            .map_or_else(|| "[unknown statement]".to_owned(), |text| one_line(text)),
    }
}

fn keep(raw: u32, text: impl FnOnce() -> String) {
    let [young, old] = &mut *RAW.lock().unwrap_or_else(PoisonError::into_inner);
    if young.contains_key(&raw) {
        return;
    }
    if young.len() >= MOST_RAW {
        forget_raw(old);
        *old = std::mem::take(young);
    }
    let text: String = text().chars().take(LONGEST_RAW).collect();
    // Without memory, it is not kept.
    if MEMORY.take(bytes_of(&text)) {
        young.insert(raw, text.into());
    }
}

fn forget_raw(texts: &mut HashMap<u32, Arc<str>>) {
    MEMORY.give(std::mem::take(texts).values().map(|text| bytes_of(text)).sum());
}

/// The text with its literals, if it is kept.
pub(super) fn raw(raw: u32) -> Option<String> {
    let both = RAW.lock().unwrap_or_else(PoisonError::into_inner);
    both.iter().find_map(|texts| texts.get(&raw)).map(|text| one_line(text))
}

/// Forgets the texts but these, and those that came after one with the number `last`. Returns the last one's number.
pub(super) fn retain(used: &HashSet<TextId>, last: u32) -> u32 {
    let mut texts = texts();
    texts.retain(used, last);
    // They have numbers of texts that may be gone.
    KNOWN.clear();
    texts.last
}

pub(super) fn age() {
    KNOWN.age();
}

pub(super) fn clear() {
    retain(&HashSet::new(), u32::MAX);
    RAW.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().for_each(forget_raw);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_numbers_until_there_are_too_many() {
        let mut texts = Texts::default();
        let first = texts.number("select ?");
        assert_eq!((texts.number("select ?"), first.is_none()), (first, false));
        for number in 0..2 * MOST {
            texts.number(&format!("select c{number}"));
        }
        assert_eq!((texts.names.len(), texts.number("select x")), (MOST, OTHERS));
        assert_eq!(texts.number("select ?"), first);
        texts.retain(&[first].into(), u32::MAX);
        let after = texts.number("select x");
        assert!(after != OTHERS && after != first && texts.names.len() == 2);
    }
}
