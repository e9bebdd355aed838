//! The types of a recording, and the event that describes them. Names and fields are those of JDK 25: tools find
//! events and fields by name.

use std::collections::HashMap;

use super::encoding::{count, event, number, text};

/// The event that describes the types.
const METADATA: u64 = 0;
/// The event that has the constants.
pub const CHECKPOINT: u64 = 1;

const BOOLEAN: u64 = 4;
const INT: u64 = 10;
const LONG: u64 = 11;
const STRING: u64 = 20;
pub const CLASS: u64 = 21;
pub const THREAD: u64 = 22;
const CLASS_LOADER: u64 = 23;
pub const FRAME_TYPE: u64 = 24;
pub const THREAD_STATE: u64 = 25;
pub const STACK_TRACE: u64 = 26;
const STACK_FRAME: u64 = 27;
pub const METHOD: u64 = 28;
pub const PACKAGE: u64 = 29;
pub const SYMBOL: u64 = 30;
pub const EXECUTION_SAMPLE: u64 = 100;
pub const METHOD_TRACE: u64 = 101;
pub const JVM_INFORMATION: u64 = 102;
pub const MONITOR_ENTER: u64 = 103;
pub const THREAD_PARK: u64 = 104;
pub const ALLOCATION_SAMPLE: u64 = 105;
pub const EXCEPTION_THROW: u64 = 106;
const LABEL: u64 = 200;
const CATEGORY: u64 = 201;
const CONTENT_TYPE: u64 = 202;
const TIMESTAMP: u64 = 203;
const TIMESPAN: u64 = 204;

struct Type {
    id: u64,
    name: &'static str,
    kind: Kind,
    fields: &'static [Field],
}

enum Kind {
    Plain,
    /// Tools show its only field in its place.
    Simple,
    /// An event, with its label and one or two categories.
    Event(&'static str, &'static [&'static str]),
    Annotation,
    /// An annotation of fields, which says their unit.
    Unit,
}

#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    type_id: u64,
    is_array: bool,
    /// Whether its value is the number of a constant.
    is_constant: bool,
    /// The annotation that says its unit, and the unit.
    unit: Option<(u64, &'static str)>,
    label: &'static str,
}

const fn value(name: &'static str, type_id: u64) -> Field {
    Field { name, type_id, is_array: false, is_constant: false, unit: None, label: "" }
}

const fn array(name: &'static str, type_id: u64) -> Field {
    Field { is_array: true, ..value(name, type_id) }
}

const fn constant(name: &'static str, type_id: u64) -> Field {
    Field { is_constant: true, ..value(name, type_id) }
}

impl Field {
    const fn unit(self, annotation: u64, unit: &'static str) -> Self {
        Self { unit: Some((annotation, unit)), ..self }
    }

    const fn label(self, label: &'static str) -> Self {
        Self { label, ..self }
    }
}

const START: Field = value("startTime", LONG).unit(TIMESTAMP, "TICKS").label("Start Time");
const DURATION: Field = value("duration", LONG).unit(TIMESPAN, "TICKS").label("Duration");
const STACK: Field = constant("stackTrace", STACK_TRACE).label("Stack Trace");
const TEXT: Field = value("value", STRING);

const TYPES: [Type; 26] = [
    Type { id: BOOLEAN, name: "boolean", kind: Kind::Plain, fields: &[] },
    Type { id: INT, name: "int", kind: Kind::Plain, fields: &[] },
    Type { id: LONG, name: "long", kind: Kind::Plain, fields: &[] },
    Type { id: STRING, name: "java.lang.String", kind: Kind::Plain, fields: &[] },
    Type {
        id: CLASS,
        name: "java.lang.Class",
        kind: Kind::Plain,
        fields: &[
            constant("classLoader", CLASS_LOADER),
            constant("name", SYMBOL),
            constant("package", PACKAGE),
            value("modifiers", INT),
        ],
    },
    Type {
        id: THREAD,
        name: "java.lang.Thread",
        kind: Kind::Plain,
        fields: &[
            value("osName", STRING),
            value("osThreadId", LONG),
            value("javaName", STRING),
            value("javaThreadId", LONG),
            value("virtual", BOOLEAN),
        ],
    },
    Type {
        id: CLASS_LOADER,
        name: "jdk.types.ClassLoader",
        kind: Kind::Plain,
        fields: &[constant("type", CLASS), constant("name", SYMBOL)],
    },
    Type {
        id: FRAME_TYPE,
        name: "jdk.types.FrameType",
        kind: Kind::Simple,
        fields: &[value("description", STRING)],
    },
    Type {
        id: THREAD_STATE,
        name: "jdk.types.ThreadState",
        kind: Kind::Simple,
        fields: &[value("name", STRING)],
    },
    Type {
        id: STACK_TRACE,
        name: "jdk.types.StackTrace",
        kind: Kind::Plain,
        fields: &[value("truncated", BOOLEAN), array("frames", STACK_FRAME)],
    },
    Type {
        id: STACK_FRAME,
        name: "jdk.types.StackFrame",
        kind: Kind::Plain,
        fields: &[
            constant("method", METHOD),
            value("lineNumber", INT),
            value("bytecodeIndex", INT),
            constant("type", FRAME_TYPE),
        ],
    },
    Type {
        id: METHOD,
        name: "jdk.types.Method",
        kind: Kind::Plain,
        fields: &[
            constant("type", CLASS),
            constant("name", SYMBOL),
            constant("descriptor", SYMBOL),
            value("modifiers", INT),
            value("hidden", BOOLEAN),
        ],
    },
    Type {
        id: PACKAGE,
        name: "jdk.types.Package",
        kind: Kind::Plain,
        fields: &[constant("name", SYMBOL)],
    },
    Type {
        id: SYMBOL,
        name: "jdk.types.Symbol",
        kind: Kind::Simple,
        fields: &[value("string", STRING)],
    },
    Type {
        id: EXECUTION_SAMPLE,
        name: "jdk.ExecutionSample",
        kind: Kind::Event("Java Execution Sample", &["Java Virtual Machine", "Profiling"]),
        fields: &[
            START,
            constant("sampledThread", THREAD).label("Thread"),
            STACK,
            constant("state", THREAD_STATE).label("Thread State"),
        ],
    },
    Type {
        id: METHOD_TRACE,
        name: "jdk.MethodTrace",
        kind: Kind::Event("Method Trace", &["Java Virtual Machine", "Method Tracing"]),
        fields: &[
            START,
            DURATION,
            constant("eventThread", THREAD).label("Event Thread"),
            STACK,
            constant("method", METHOD).label("Method"),
        ],
    },
    Type {
        id: MONITOR_ENTER,
        name: "jdk.JavaMonitorEnter",
        kind: Kind::Event("Java Monitor Blocked", &["Java Application"]),
        fields: &[
            START,
            DURATION,
            constant("eventThread", THREAD).label("Event Thread"),
            STACK,
            constant("monitorClass", CLASS).label("Monitor Class"),
            constant("previousOwner", THREAD).label("Previous Monitor Owner"),
        ],
    },
    Type {
        id: THREAD_PARK,
        name: "jdk.ThreadPark",
        kind: Kind::Event("Java Thread Park", &["Java Application"]),
        fields: &[
            START,
            DURATION,
            constant("eventThread", THREAD).label("Event Thread"),
            STACK,
            constant("parkedClass", CLASS).label("Class Parked On"),
        ],
    },
    Type {
        id: ALLOCATION_SAMPLE,
        name: "jdk.ObjectAllocationSample",
        kind: Kind::Event("Object Allocation Sample", &["Java Application"]),
        fields: &[
            START,
            constant("eventThread", THREAD).label("Event Thread"),
            STACK,
            constant("objectClass", CLASS).label("Object Class"),
            value("weight", LONG).label("Sample Weight"),
        ],
    },
    Type {
        id: EXCEPTION_THROW,
        name: "jdk.JavaExceptionThrow",
        kind: Kind::Event("Java Exception", &["Java Application"]),
        fields: &[
            START,
            constant("eventThread", THREAD).label("Event Thread"),
            STACK,
            value("message", STRING).label("Message"),
            constant("thrownClass", CLASS).label("Class"),
        ],
    },
    Type {
        id: JVM_INFORMATION,
        name: "jdk.JVMInformation",
        kind: Kind::Event("JVM Information", &["Java Virtual Machine"]),
        fields: &[
            START,
            value("jvmName", STRING).label("JVM Name"),
            value("jvmVersion", STRING).label("JVM Version"),
            value("jvmArguments", STRING).label("JVM Command Line Arguments"),
            value("jvmFlags", STRING).label("JVM Settings File Arguments"),
            value("javaArguments", STRING).label("Java Application Arguments"),
            value("jvmStartTime", LONG)
                .unit(TIMESTAMP, "MILLISECONDS_SINCE_EPOCH")
                .label("JVM Start Time"),
            value("pid", LONG).label("Process Identifier"),
        ],
    },
    Type { id: LABEL, name: "jdk.jfr.Label", kind: Kind::Annotation, fields: &[TEXT] },
    Type {
        id: CATEGORY,
        name: "jdk.jfr.Category",
        kind: Kind::Annotation,
        fields: &[array("value", STRING)],
    },
    Type { id: CONTENT_TYPE, name: "jdk.jfr.ContentType", kind: Kind::Annotation, fields: &[] },
    Type { id: TIMESTAMP, name: "jdk.jfr.Timestamp", kind: Kind::Unit, fields: &[TEXT] },
    Type { id: TIMESPAN, name: "jdk.jfr.Timespan", kind: Kind::Unit, fields: &[TEXT] },
];

/// The event that describes the types: a tree of elements with attributes, whose words are in a table.
pub fn metadata() -> Vec<u8> {
    let mut tree = Tree::default();
    tree.element("root", &[], 2);
    tree.element("metadata", &[], TYPES.len());
    TYPES.iter().for_each(|of| tree.type_of(of));
    tree.element("region", &[("locale", "en_US"), ("gmtOffset", "0")], 0);
    let mut out = Vec::new();
    event(&mut out, METADATA, |body| {
        // Start, duration and id.
        body.extend([0, 0, 1]);
        count(body, tree.words.len());
        body.append(&mut tree.words_encoded);
        body.append(&mut tree.elements);
    });
    out
}

#[derive(Default)]
struct Tree {
    words: HashMap<String, u64>,
    words_encoded: Vec<u8>,
    elements: Vec<u8>,
}

impl Tree {
    /// An element; its children follow.
    fn element(&mut self, name: &str, attributes: &[(&str, &str)], children: usize) {
        self.word(name);
        count(&mut self.elements, attributes.len());
        for (name, value) in attributes {
            self.word(name);
            self.word(value);
        }
        count(&mut self.elements, children);
    }

    fn word(&mut self, word: &str) {
        let next = u64::try_from(self.words.len()).unwrap_or(u64::MAX);
        let place = *self.words.entry(word.to_owned()).or_insert(next);
        if place == next {
            text(&mut self.words_encoded, Some(word));
        }
        number(&mut self.elements, place);
    }

    fn type_of(&mut self, of: &Type) {
        let id = of.id.to_string();
        let mut attributes = vec![("name", of.name), ("id", &id)];
        let annotations = match of.kind {
            Kind::Plain => 0,
            Kind::Simple => {
                attributes.push(("simpleType", "true"));
                0
            }
            Kind::Event(..) => {
                attributes.push(("superType", "jdk.jfr.Event"));
                2
            }
            Kind::Annotation | Kind::Unit => {
                attributes.push(("superType", "java.lang.annotation.Annotation"));
                usize::from(matches!(of.kind, Kind::Unit))
            }
        };
        self.element("class", &attributes, annotations + of.fields.len());
        match of.kind {
            Kind::Event(label, categories) => {
                self.annotation(LABEL, &[("value", label)]);
                let places = ["value-0", "value-1"].into_iter();
                let categories: Vec<_> = places.zip(categories.iter().copied()).collect();
                self.annotation(CATEGORY, &categories);
            }
            Kind::Unit => self.annotation(CONTENT_TYPE, &[]),
            Kind::Plain | Kind::Simple | Kind::Annotation => {}
        }
        of.fields.iter().for_each(|field| self.field(field));
    }

    fn field(&mut self, field: &Field) {
        let type_id = field.type_id.to_string();
        let mut attributes = vec![("name", field.name), ("class", &type_id)];
        if field.is_constant {
            attributes.push(("constantPool", "true"));
        }
        if field.is_array {
            attributes.push(("dimension", "1"));
        }
        let has_label = !field.label.is_empty();
        let annotations = usize::from(has_label) + usize::from(field.unit.is_some());
        self.element("field", &attributes, annotations);
        if has_label {
            self.annotation(LABEL, &[("value", field.label)]);
        }
        if let Some((annotation, unit)) = field.unit {
            self.annotation(annotation, &[("value", unit)]);
        }
    }

    fn annotation(&mut self, type_id: u64, values: &[(&str, &str)]) {
        let type_id = type_id.to_string();
        let mut attributes = vec![("class", type_id.as_str())];
        attributes.extend(values);
        self.element("annotation", &attributes, 0);
    }
}
