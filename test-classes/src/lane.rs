//! Which lane this is: the fast one, or the full one, where `scripts/test.sh` sets `TEST_ROUNDS`.

/// How often to repeat something at random: often in the fast lane, and more often in the full one.
pub fn rounds(often: u32, more_often: u32) -> u32 {
    if is_full() { more_often } else { often }
}

/// Whether this is the full lane.
#[must_use]
pub fn is_full() -> bool {
    std::env::var("TEST_ROUNDS").is_ok_and(|rounds| rounds == "full")
}
