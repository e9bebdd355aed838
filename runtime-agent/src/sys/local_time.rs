//! The time of the day where the machine is.
#![allow(unsafe_code)]

const DAY_S: u32 = 24 * 3600;

/// The local second of the day: by TZ, or else by the machine's setting.
pub(crate) fn second_of_day() -> u32 {
    // SAFETY: both structures are this function's own; zero is a valid value of each of their fields.
    let time = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut local: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const now, &raw mut local);
        local
    };
    let second = time.tm_hour * 3600 + time.tm_min * 60 + time.tm_sec;
    u32::try_from(second).unwrap_or(0) % DAY_S
}
