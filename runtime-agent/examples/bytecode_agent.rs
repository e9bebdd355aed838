//! An agent that writes, when the JVM ends, the current bytecode of each method of some classes: a line for each
//! method, with the code in hexadecimal digits.
//!
//! Usage: `-agentpath:...=PREFIX,FILE`, where the prefix is that of the classes' internal names.
#![allow(missing_docs, unsafe_code)]

use std::fmt::Write as _;
use std::sync::OnceLock;

use jvmti_bindings::env::Jvmti;
use jvmti_bindings::prelude::{Agent, AgentLoadContext, CallbackContext, jni, jvmti};

#[derive(Default)]
struct BytecodeAgent {
    /// The prefix of signatures, and the file.
    options: OnceLock<(String, String)>,
}

impl Agent for BytecodeAgent {
    fn on_load(&self, context: AgentLoadContext<'_>) -> jni::jint {
        let options = context.options_lossy().unwrap_or_default();
        let Some((prefix, file)) = options.split_once(',') else { return jni::JNI_ERR };
        let _ = self.options.set((format!("L{prefix}"), file.to_owned()));
        match prepare(&context) {
            Ok(()) => jni::JNI_OK,
            Err(_) => jni::JNI_ERR,
        }
    }

    fn vm_death(&self, context: CallbackContext<'_>) {
        if let Some((prefix, file)) = self.options.get() {
            let mut lines = codes(context.jvmti(), prefix).unwrap_or_default();
            lines.sort();
            // Without the file the test fails.
            let _ = std::fs::write(file, lines.concat());
        }
    }
}

fn prepare(context: &AgentLoadContext<'_>) -> Result<(), jvmti::jvmtiError> {
    let jvmti = context.vm().jvmti().map_err(|_| jvmti::jvmtiError::INTERNAL)?;
    let mut capabilities = jvmti::jvmtiCapabilities::default();
    capabilities.set_can_get_bytecodes(true);
    jvmti.add_capabilities(&capabilities)?;
    jvmti.set_default_agent_callbacks()?;
    jvmti.enable_events_global(&[jvmti::JVMTI_EVENT_VM_DEATH])
}

fn codes(jvmti: &Jvmti, prefix: &str) -> Result<Vec<String>, jvmti::jvmtiError> {
    let mut lines = Vec::new();
    for class in jvmti.get_loaded_classes()? {
        // SAFETY: a live reference of this thread.
        let (signature, _) = unsafe { jvmti.get_class_signature(class) }?;
        if !signature.starts_with(prefix) {
            continue;
        }
        // SAFETY: as above.
        for method in unsafe { jvmti.get_class_methods(class) }? {
            // SAFETY: a method of a class that is loaded.
            let (name, descriptor, _) = unsafe { jvmti.get_method_name(method) }?;
            // SAFETY: as above. A method without code has no bytecodes.
            let code = unsafe { jvmti.get_bytecodes(method) }.unwrap_or_default();
            let mut line = format!("{signature} {name}{descriptor} ");
            for byte in code {
                let _ = write!(line, "{byte:02x}");
            }
            line.push('\n');
            lines.push(line);
        }
    }
    Ok(lines)
}

#[allow(clippy::undocumented_unsafe_blocks)]
mod entry_points {
    jvmti_bindings::export_agent!(super::BytecodeAgent);
}
