//! The JDK in which the agent runs, and the newest tested one.

use jvmti_bindings::env::Jvmti;

/// The newest JDK on which all self-tests and all exactness tests were run.
pub(crate) const NEWEST_TESTED: u32 = 25;

/// The JVM's major version; `None` if it does not say.
pub(crate) fn version(jvmti: &Jvmti) -> Option<u32> {
    parse(&jvmti.get_system_property("java.vm.specification.version").ok()?)
}

/// Parses `25`, or `1.8` from old JVMs.
fn parse(text: &str) -> Option<u32> {
    text.strip_prefix("1.").unwrap_or(text).split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_old_and_new_jvms() {
        assert_eq!(parse("25"), Some(25));
        assert_eq!(parse("27.1"), Some(27));
        assert_eq!(parse("1.8"), Some(8));
        assert_eq!(parse("next"), None);
        assert_eq!(parse(""), None);
    }
}
