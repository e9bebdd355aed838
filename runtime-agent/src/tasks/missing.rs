//! What a running task could not see, for its reason.

use log_format::human;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Missing {
    /// No instrumented method has been the endpoint.
    pub endpoint: bool,
    /// Recording was off for a time.
    pub was_off: bool,
    /// Methods were muted or unmuted.
    pub was_muted: bool,
    /// Most methods of the endpoint, and most others, that were throttled at a time.
    pub throttled_endpoints: usize,
    pub throttled_others: usize,
    /// If it was raised, calls in requests were recorded only from this duration on, in nanoseconds.
    pub least_call_ns: Option<u64>,
    /// Calls in requests that were lost with their request.
    pub lost: u64,
}

impl Missing {
    /// Notes how many methods of the endpoint, and others, are throttled now.
    pub(crate) fn note_throttled(&mut self, endpoints: usize, others: usize) {
        self.throttled_endpoints = self.throttled_endpoints.max(endpoints);
        self.throttled_others = self.throttled_others.max(others);
    }

    /// A text for each.
    pub(crate) fn texts(&self) -> Vec<String> {
        let Self { throttled_endpoints, throttled_others, lost, .. } = self;
        let text = |is_so: bool, text: &str| is_so.then(|| text.to_owned());
        let some = |count: usize, one: &str, more: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {more}")),
        };
        let texts = [
            text(self.endpoint, "the endpoint matches no instrumented method"),
            text(self.was_off, "recording was off for a time"),
            text(self.was_muted, "methods were muted or unmuted"),
            some(
                *throttled_endpoints,
                "method of the endpoint was throttled",
                "methods of the endpoint were throttled",
            ),
            some(
                *throttled_others,
                "method was throttled: its callers' self time has its time",
                "methods were throttled: their callers' self time has their time",
            ),
            self.least_call_ns.map(|ns| {
                let least = human::duration(ns);
                format!(
                    "calls under {least} were not recorded any more, because there were too many"
                )
            }),
            (*lost > 0).then(|| format!("{lost} calls found no room, so requests may be missing")),
        ];
        texts.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_text() {
        assert_eq!(Missing::default().texts(), [""; 0]);
        let mut all = Missing {
            endpoint: true,
            was_off: true,
            was_muted: true,
            least_call_ns: Some(200_000),
            lost: 7,
            ..Missing::default()
        };
        all.note_throttled(1, 5);
        all.note_throttled(2, 3);
        assert_eq!(
            all.texts(),
            [
                "the endpoint matches no instrumented method",
                "recording was off for a time",
                "methods were muted or unmuted",
                "2 methods of the endpoint were throttled",
                "5 methods were throttled: their callers' self time has their time",
                "calls under 200 us were not recorded any more, because there were too many",
                "7 calls found no room, so requests may be missing",
            ]
        );
    }
}
