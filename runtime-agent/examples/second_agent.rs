//! Another agent with a load hook, for tests that load it next to ours. It adds an attribute and a constant to the
//! classes of the package `truth`, makes them say `done twice` where they say `done`, and writes down which classes it
//! met and whether they were already instrumented.
//!
//! Usage: `-agentpath:...=capable,FILE`, or `incapable`: whether it can retransform decides which agent the JVM calls
//! first. `slow` is incapable too, and keeps the JVM from its end until `FILE` is gone.
#![allow(missing_docs)]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use jvmti_bindings::prelude::{
    Agent, AgentLoadContext, CallbackContext, ClassFileLoadHookEvent, jni, jvmti,
};

#[derive(Default)]
struct SecondAgent {
    file: OnceLock<String>,
    is_slow: OnceLock<()>,
    /// A line for each time a class was met.
    met: Mutex<String>,
}

impl Agent for SecondAgent {
    fn on_load(&self, context: AgentLoadContext<'_>) -> jni::jint {
        let options = context.options_lossy().unwrap_or_default();
        let Some((capable, file)) = options.split_once(',') else { return jni::JNI_ERR };
        let _ = self.file.set(file.to_owned());
        if capable == "slow" {
            let _ = self.is_slow.set(());
        }
        match prepare(&context, capable == "capable") {
            Ok(()) => jni::JNI_OK,
            Err(_) => jni::JNI_ERR,
        }
    }

    fn class_file_load_hook<'callback>(
        &self,
        context: CallbackContext<'callback>,
        mut event: ClassFileLoadHookEvent<'callback>,
    ) {
        let Ok(Some(name)) = event.name_str() else { return };
        if !name.starts_with("truth/") {
            return;
        }
        let bytes = event.class_data();
        let probe = b"java/lang/invoke/$TProfiler";
        let probes = bytes.windows(probe.len()).any(|window| window == probe);
        let set = changed(bytes).map(|bytes| event.set_transformed_class(&context, &bytes));
        let what = match (set, probes) {
            (Some(Ok(())), true) => "probes",
            (Some(Ok(())), false) => "plain",
            _ => "failed",
        };
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(met, "{name} {what}");
    }

    fn vm_death(&self, _context: CallbackContext<'_>) {
        let met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = self.file.get() {
            // Without the file the test fails.
            let _ = std::fs::write(file, &*met);
            let until = Instant::now() + Duration::from_secs(60);
            while self.is_slow.get().is_some() && Path::new(file).exists() && Instant::now() < until
            {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

fn prepare(context: &AgentLoadContext<'_>, capable: bool) -> Result<(), jvmti::jvmtiError> {
    let jvmti = context.vm().jvmti().map_err(|_| jvmti::jvmtiError::INTERNAL)?;
    let mut capabilities = jvmti::jvmtiCapabilities::default();
    capabilities.set_can_generate_all_class_hook_events(true);
    capabilities.set_can_retransform_classes(capable);
    jvmti.add_capabilities(&capabilities)?;
    jvmti.set_default_agent_callbacks()?;
    jvmti.enable_events_global(&[
        jvmti::JVMTI_EVENT_CLASS_FILE_LOAD_HOOK,
        jvmti::JVMTI_EVENT_VM_DEATH,
    ])
}

/// A class file being read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    fn skip_members(&mut self) -> Option<()> {
        for _ in 0..self.u16()? {
            self.take(6)?;
            for _ in 0..self.u16()? {
                self.take(2)?;
                let length = u32::from_be_bytes(self.take(4)?.try_into().ok()?);
                self.take(usize::try_from(length).ok()?)?;
            }
        }
        Some(())
    }
}

/// The class with one more constant and attribute, and another text.
fn changed(class: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader(class);
    let mut out = reader.take(8)?.to_vec();
    let constants = reader.u16()?;
    out.extend(constants.checked_add(1)?.to_be_bytes());
    let mut index = 1;
    while index < constants {
        let tag = *reader.take(1)?.first()?;
        out.push(tag);
        match tag {
            1 => {
                let length = reader.u16()?;
                let text = match reader.take(length.into())? {
                    b"done" => b"done twice",
                    text => text,
                };
                out.extend(u16::try_from(text.len()).ok()?.to_be_bytes());
                out.extend(text);
            }
            7 | 8 | 16 | 19 | 20 => out.extend(reader.take(2)?),
            15 => out.extend(reader.take(3)?),
            3 | 4 | 9..=12 | 17 | 18 => out.extend(reader.take(4)?),
            5 | 6 => {
                out.extend(reader.take(8)?);
                index += 1;
            }
            _ => return None,
        }
        index += 1;
    }
    let name = b"SecondAgent";
    out.push(1);
    out.extend(u16::try_from(name.len()).ok()?.to_be_bytes());
    out.extend(name);

    let body = reader.0;
    reader.take(6)?;
    let interfaces = reader.u16()?;
    reader.take(2 * usize::from(interfaces))?;
    reader.skip_members()?;
    reader.skip_members()?;
    out.extend(body.get(..body.len() - reader.0.len())?);
    out.extend(reader.u16()?.checked_add(1)?.to_be_bytes());
    out.extend(reader.0);
    out.extend(constants.to_be_bytes());
    out.extend([0; 4]);
    Some(out)
}

#[allow(unsafe_code, clippy::undocumented_unsafe_blocks)]
mod entry_points {
    jvmti_bindings::export_agent!(super::SecondAgent);
}
