//! Whether the kernel trusts the time-stamp counter.
//!
//! CPUID says that a counter is invariant. Only the kernel finds out that the counters of two sockets differ, or that
//! the firmware set one. It then uses another clock source, and so must the probe.

use std::fs;

const FOLDER: &str = "/sys/devices/system/clocksource/clocksource0";

/// The clock sources that the kernel uses when it distrusts the counter.
const FALLBACKS: [&str; 4] = ["hpet", "acpi_pm", "refined-jiffies", "jiffies"];

/// The kernel's clock sources; `None` if unreadable, as in some containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClockSources {
    pub available: Option<String>,
    pub current: Option<String>,
}

impl ClockSources {
    pub(super) fn read() -> Self {
        let read = |name: &str| fs::read_to_string(format!("{FOLDER}/{name}")).ok();
        Self { available: read("available_clocksource"), current: read("current_clocksource") }
    }

    /// Whether the time-stamp counter may be the clock. Unreadable values are ignored.
    pub(super) fn trust_tsc(&self) -> bool {
        let is_available = |list: &String| list.split_whitespace().any(|source| source == "tsc");
        let is_fallback = |source: &String| FALLBACKS.contains(&source.trim());
        self.available.as_ref().is_none_or(is_available)
            && !self.current.as_ref().is_some_and(is_fallback)
    }
}

/// Renewals of the clock, about one a second, between two checks of the kernel's clock source.
const RENEWALS: u32 = 60;

/// Checks from time to time whether the kernel still trusts the counter.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    renewals: u32,
    is_lost: bool,
}

impl Watch {
    /// To be called at each renewal of the clock; `jumped` if that found a jump. Returns `true` once, when the kernel
    /// has dropped the counter that is this run's clock.
    pub(crate) fn loses_trust(&mut self, jumped: bool) -> bool {
        self.is_due(jumped) && {
            self.is_lost = super::reading::is_counter() && !ClockSources::read().trust_tsc();
            self.is_lost
        }
    }

    fn is_due(&mut self, jumped: bool) -> bool {
        self.renewals += 1;
        let is_due = !self.is_lost && (jumped || self.renewals >= RENEWALS);
        if is_due {
            self.renewals = 0;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_used_where_the_kernel_has_it_and_did_not_fall_back() {
        for (available, current, expected) in [
            (Some("tsc hpet acpi_pm \n"), Some("tsc\n"), true),
            (Some("tsc kvm-clock \n"), Some("tsc\n"), true),
            (Some("kvm-clock tsc acpi_pm \n"), Some("kvm-clock\n"), true),
            (
                Some("hyperv_clocksource_tsc_page tsc acpi_pm \n"),
                Some("hyperv_clocksource_tsc_page\n"),
                true,
            ),
            (Some("xen tsc \n"), Some("xen\n"), true),
            (None, None, true),
            (None, Some("tsc\n"), true),
            (Some("tsc \n"), None, true),
            // The kernel takes an unstable counter off the list, or leaves it there and uses another source.
            (Some("hpet acpi_pm \n"), Some("hpet\n"), false),
            (Some("tsc hpet acpi_pm \n"), Some("hpet\n"), false),
            (Some("tsc acpi_pm \n"), Some("acpi_pm\n"), false),
            (Some("tsc refined-jiffies \n"), Some("refined-jiffies\n"), false),
            (Some("tsc jiffies \n"), Some("jiffies\n"), false),
            (Some("kvm-clock acpi_pm \n"), Some("kvm-clock\n"), false),
            (Some("kvm-clock \n"), None, false),
            (None, Some("hpet\n"), false),
            (Some("tsc-early hpet \n"), Some("tsc-early\n"), false),
            (Some("\n"), Some("\n"), false),
        ] {
            let sources = ClockSources {
                available: available.map(str::to_owned),
                current: current.map(str::to_owned),
            };
            assert_eq!(sources.trust_tsc(), expected, "{sources:?}");
        }
    }
}
