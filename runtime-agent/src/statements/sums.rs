//! Sums of all executions that have ended, by statement and measured method.

use log_format::ids::MethodId;
use rewriter::probe::OFFLINE;

use super::texts::TextId;
use super::urls::UrlId;
use crate::probe::time_sum::TimeSum;
use crate::sys::memory::sharded::Sharded;

/// A text at a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StatementKey(u32);

impl StatementKey {
    pub(super) fn new(url: UrlId, text: TextId) -> Self {
        Self(u32::from(url.get()) << 24 | text.get())
    }

    #[allow(clippy::cast_possible_truncation)] // The highest byte.
    pub(super) const fn url(self) -> UrlId {
        UrlId::new((self.0 >> 24) as u8)
    }

    pub(super) const fn text(self) -> TextId {
        TextId::new(self.0 & 0xff_ffff)
    }
}

/// Executions of a statement from one method.
#[derive(Clone, Debug)]
pub(crate) struct StatementSum {
    pub times: TimeSum,
    pub throws: u64,
}

impl StatementSum {
    pub(crate) const NONE: Self = Self { times: TimeSum::NONE, throws: 0 };

    pub(crate) fn merge(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.throws += other.throws;
    }
}

static SUMS: Sharded<StatementSum> = Sharded::new();

/// Adds an execution; `false` if there is no memory.
pub(super) fn add(key: StatementKey, method: MethodId, ticks: u64, threw: bool) -> bool {
    let key = u64::from(key.0) << 32 | u64::from(method.get());
    SUMS.change_or_insert(key, StatementSum::NONE, |sum| {
        sum.times.add(ticks);
        sum.throws += u64::from(threw);
    })
}

/// Takes the sums since the last call.
pub(crate) fn take() -> Vec<((StatementKey, MethodId), StatementSum)> {
    let key = |(key, sum): (u64, StatementSum)| {
        let [statement, method] = [key >> 32, key & 0xffff_ffff].map(|half| half.try_into().ok());
        // Methods that the `rewrite` command instrumented have no names.
        let method =
            method.filter(|method| *method < OFFLINE).map_or(MethodId::NONE, MethodId::new);
        Some(((StatementKey(statement?), method), sum))
    };
    SUMS.take_all().into_iter().filter_map(key).collect()
}
