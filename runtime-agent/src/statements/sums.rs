//! Sums of all executions that have ended, by statement and instrumented method.

use log_format::ids::MethodId;
use rewriter::probe::OFFLINE;

use super::texts::{MOST_NUMBERS, TextId};
use super::urls::{MOST as MOST_URLS, UrlId};
use crate::instrument::methods::MAX_METHODS;
use crate::probe::time_sum::TimeSum;
use crate::sys::memory::sharded::Sharded;

/// Bits of a method's number, and of a URL's.
const METHOD_BITS: u32 = 20;
const _: () = assert!(MAX_METHODS < 1 << METHOD_BITS);
const URL_BITS: u32 = 12;
const _: () = assert!(MOST_URLS < 1 << URL_BITS);
const _: () = assert!(MOST_NUMBERS <= 1 << (u64::BITS - METHOD_BITS - URL_BITS));

/// A text at a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StatementKey {
    pub(super) text: TextId,
    pub(super) url: UrlId,
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
    // Methods that the `rewrite` command instrumented have no names.
    let method = if method.get() < OFFLINE { method.get() } else { 0 };
    let number = u64::from(key.text.get()) << URL_BITS | u64::from(key.url.get());
    let number = number << METHOD_BITS | u64::from(method);
    SUMS.change_or_insert(number, StatementSum::NONE, |sum| {
        sum.times.add(ticks);
        sum.throws += u64::from(threw);
    })
}

/// Takes the sums since the last call.
pub(crate) fn take() -> Vec<((StatementKey, MethodId), StatementSum)> {
    let key = |(number, sum): (u64, StatementSum)| {
        let bits = |from: u32, count: u32| {
            u32::try_from(number >> from & ((1 << count) - 1)).unwrap_or_default()
        };
        let text = TextId::new(bits(METHOD_BITS + URL_BITS, u32::BITS));
        let url = UrlId::new(u16::try_from(bits(METHOD_BITS, URL_BITS)).unwrap_or_default());
        ((StatementKey { text, url }, MethodId::new(bits(0, METHOD_BITS))), sum)
    };
    SUMS.take_all().into_iter().map(key).collect()
}
