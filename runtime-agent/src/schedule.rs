//! When the agent records on its own: in a daily window, and in turns of recording and pause within it.
//!
//! The agent thread asks in each round of its loop. Only an edge has an effect, a moment at which the schedule turns
//! recording on or off. So a client's command holds until the next edge.

use std::fmt;
use std::time::{Duration, Instant};

use log_format::error::BadValue;
use log_format::units::parse_duration;

use crate::sys::local_time;

const DAY_S: u32 = 24 * 3600;

/// A daily period by the local clock. One that ends before it begins spans midnight; one that ends when it begins is
/// the whole day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First second of the day that is in it.
    pub from_s: u32,
    /// First second that is not.
    pub to_s: u32,
}

/// When to record, by the options. By default, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Only at this time of the day.
    pub window: Option<Window>,
    /// How long recording stays on; not 0. Recording and pauses alternate from the time the window opens, or without a
    /// window from the agent's start.
    pub record: Option<Duration>,
    /// How long it then stays off; set if `record` is.
    pub pause: Option<Duration>,
}

impl Window {
    /// Reads `09:00-11:30`, with or without seconds.
    ///
    /// # Errors
    /// What is wrong with `text`.
    pub fn parse(text: &str) -> Result<Self, BadValue> {
        let times = text.split_once('-').and_then(|(from, to)| {
            Some(Self { from_s: time_of_day(from)?, to_s: time_of_day(to)? % DAY_S })
        });
        times.filter(|window| window.from_s < DAY_S).ok_or_else(|| {
            BadValue::new(text, "is not a time of the day to another, like 09:00-11:30")
        })
    }

    fn contains(&self, second_of_day: u32) -> bool {
        // Seconds after the window's start, around the clock.
        let after = |second: u32| (second + DAY_S - self.from_s) % DAY_S;
        self.from_s == self.to_s || after(second_of_day) < after(self.to_s)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |s: u32| format!("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
        write!(f, "{}-{}", time(self.from_s), time(self.to_s))
    }
}

/// The second of the day of `9:00` or `09:00:00`; 24:00 is the day's end.
pub fn time_of_day(text: &str) -> Option<u32> {
    let mut parts = text.trim().split(':');
    let mut next = |limit: u32| {
        let part = parts.next()?.trim();
        let number: u32 = part.parse().ok().filter(|n| *n < limit)?;
        (part.len() <= 2 && part.bytes().all(|b| b.is_ascii_digit())).then_some(number)
    };
    let (hours, minutes) = (next(25)?, next(60)?);
    let seconds = if text.matches(':').count() > 1 { next(60)? } else { 0 };
    let second = hours * 3600 + minutes * 60 + seconds;
    (parts.next().is_none() && second <= DAY_S).then_some(second)
}

/// Reads how long to record; not 0.
///
/// # Errors
/// What is wrong with `text`.
pub fn parse_record(text: &str) -> Result<Duration, BadValue> {
    let record = parse_duration(text)?;
    if record.is_zero() {
        Err(BadValue::new(text, "is not longer than 0; use a duration like 5s"))
    } else {
        Ok(record)
    }
}

/// Follows a [`Plan`] through time.
#[derive(Debug)]
pub(crate) struct Schedule {
    plan: Plan,
    /// When the window opened last, or the agent began.
    began: Instant,
    was_in_window: bool,
    wanted: bool,
}

impl Schedule {
    /// Begins; the state at the beginning is no edge.
    pub(crate) fn new(plan: Plan) -> Self {
        Self::at(plan, Instant::now(), local_time::second_of_day())
    }

    fn at(plan: Plan, now: Instant, second_of_day: u32) -> Self {
        let mut schedule = Self { plan, began: now, was_in_window: false, wanted: false };
        schedule.edge_at(now, second_of_day);
        schedule
    }

    /// Whether recording should be on.
    pub(crate) fn wanted(&self) -> bool {
        self.wanted
    }

    /// Whether recording and pauses alternate.
    pub(crate) fn has_turns(&self) -> bool {
        self.plan.record.is_some()
    }

    /// Whether recording should be on from now on, if that has changed since the last call.
    pub(crate) fn edge(&mut self) -> Option<bool> {
        if self.plan == Plan::default() {
            return None;
        }
        self.edge_at(Instant::now(), local_time::second_of_day())
    }

    fn edge_at(&mut self, now: Instant, second_of_day: u32) -> Option<bool> {
        let in_window = self.plan.window.is_none_or(|window| window.contains(second_of_day));
        if in_window && !self.was_in_window {
            self.began = now;
        }
        self.was_in_window = in_window;
        let in_turn = self.plan.record.is_none_or(|record| {
            let round = record.saturating_add(self.plan.pause.unwrap_or_default()).as_nanos();
            let since = now.saturating_duration_since(self.began).as_nanos();
            since.checked_rem(round).is_none_or(|since| since < record.as_nanos())
        });
        let wanted = in_window && in_turn;
        (std::mem::replace(&mut self.wanted, wanted) != wanted).then_some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_two_times_of_the_day() {
        for (text, shown) in [
            ("09:00-11:30", "09:00:00-11:30:00"),
            ("9:00:05-11:30:10", "09:00:05-11:30:10"),
            ("22:00-6:00", "22:00:00-06:00:00"),
            ("0:00-24:00", "00:00:00-00:00:00"),
        ] {
            assert_eq!(Window::parse(text).unwrap().to_string(), shown);
        }
        for text in [
            "",
            "9-11",
            "09:00",
            "09:60-10:00",
            "24:01-1:00",
            "24:00-1:00",
            "9:00:00:00-10:00",
            "+9:00-10:00",
            "009:00-10:00",
        ] {
            let error = Window::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' is not a time")), "{error}");
        }
    }

    #[test]
    fn a_window_may_go_over_midnight() {
        let hours = |text: &str| {
            let window = Window::parse(text).unwrap();
            (0..24).filter(|hour| window.contains(hour * 3600)).collect::<Vec<_>>()
        };
        assert_eq!(hours("9:00-11:00"), [9, 10]);
        assert_eq!(hours("22:00-2:00"), [0, 1, 22, 23]);
        assert_eq!(hours("22:00-24:00"), [22, 23]);
        assert_eq!(hours("0:00-24:00").len(), 24);
        assert!(Window::parse("9:00-11:00").unwrap().contains(11 * 3600 - 1));
    }

    #[test]
    fn edges_come_when_the_window_opens_and_by_turns_within_it() {
        let plan = Plan {
            window: Some(Window::parse("9:00-9:02").unwrap()),
            record: Some(Duration::from_secs(5)),
            pause: Some(Duration::from_secs(50)),
        };
        let (start, before) = (Instant::now(), 9 * 3600 - 30);
        let mut schedule = Schedule::at(plan, start, before);
        assert!(!schedule.wanted());
        let edges: Vec<(u32, bool)> = (0..200)
            .filter_map(|s| {
                let now = start + Duration::from_secs(u64::from(s));
                Some((s, schedule.edge_at(now, before + s)?))
            })
            .collect();
        let (on, off) = (true, false);
        assert_eq!(
            edges,
            [(30, on), (35, off), (85, on), (90, off), (140, on), (145, off)],
            "the window closes at 150"
        );
    }

    #[test]
    fn without_a_plan_there_is_no_edge() {
        let mut schedule = Schedule::new(Plan::default());
        assert!(schedule.wanted());
        assert_eq!(schedule.edge(), None);
        assert!(local_time::second_of_day() < DAY_S);
    }
}
