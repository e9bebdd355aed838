//! The part of the probe class for the self-test of compiled-out probes; see
//! [`compiled_out`](crate::self_test::compiled_out).
#![allow(unsafe_code)]

use std::thread;

use jvmti_bindings::env::JniEnv;
use jvmti_bindings::prelude::jni;

use super::{ProbeClass, ROUND};
use log_format::ids::MethodId;

use crate::error::JvmError;
use crate::options::Pretend;
use crate::self_test::compiled_out::{self, CALLS, WARM_CALLS};
use crate::self_test::cpu_time;
use crate::self_test::verdict::Verdict;

/// The element that the test uses: no method has this id, and [`ProbeClass::exercise`] does not use it either.
const TRIAL: MethodId = MethodId::NONE;
/// How many more rounds the test gets at the start.
const ROUNDS: u32 = 5;

impl ProbeClass {
    /// Tests whether compiled-out probes are folded, for some milliseconds.
    pub(super) fn test_at_start(&self, jni: &JniEnv, pretend: &Pretend) -> Result<(), JvmError> {
        for _ in 0..ROUNDS {
            self.test_compiled_out(jni, pretend, false)?;
            if compiled_out::folded() != Verdict::Unknown {
                break;
            }
            thread::sleep(ROUND);
        }
        Ok(())
    }

    /// Makes one attempt to find out whether compiled-out probes are folded; see `self_test`. If it fails and
    /// `begins_again`, discards the code compiled so far, which may have been compiled while the element was 0.
    ///
    /// # Errors
    /// The JVM refuses it.
    pub(crate) fn test_compiled_out(
        &self,
        jni: &JniEnv,
        pretend: &Pretend,
        begins_again: bool,
    ) -> Result<(), JvmError> {
        let Some(fast) = self.fast else { return Ok(()) };
        let renew = || self.call_void(jni, fast.renew_trial, &[], "test");
        cpu_time::timed(|| {
            self.set_compiled_out(jni, TRIAL, false);
            let open = self.count_open(jni, CALLS)?;
            let after_renewal = || renew().and_then(|()| self.count_open(jni, CALLS));
            compiled_out::judge(open, after_renewal, pretend)?;
            if compiled_out::folded() != Verdict::Unknown {
                return Ok(());
            }
            self.set_compiled_out(jni, TRIAL, true);
            if begins_again {
                renew()?;
            }
            self.warm_trial(jni)
        })
    }

    /// Makes the JIT compile what the self-test needs.
    pub(super) fn warm_trial(&self, jni: &JniEnv) -> Result<(), JvmError> {
        self.set_compiled_out(jni, TRIAL, true);
        self.count_open(jni, WARM_CALLS).map(drop)
    }

    fn count_open(&self, jni: &JniEnv, calls: jni::jint) -> Result<jni::jint, JvmError> {
        let Some(fast) = self.fast else { return Ok(0) };
        let arguments = [jni::jvalue { i: calls }];
        // SAFETY: the global reference is valid as long as the JVM; the method takes an int and returns one.
        let open = unsafe { jni.call_static_int_method(self.class, fast.count_open, &arguments) };
        Self::check(jni, "test").map(|()| open)
    }
}
