//! Reads recordings of JDK Flight Recorder, by what their own metadata says. Written apart from the writer.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// A chunk of a recording.
pub struct Chunk {
    pub start_ns: u64,
    pub duration_ns: u64,
    /// Events in the order of the file: `type`, and their fields, of which constants are resolved. `startTime` is in
    /// unix nanoseconds.
    pub events: Vec<Value>,
}

/// The chunks of a recording, which must be flawless. If a number was in the chunk before, the JDK's reader takes the
/// constant from there.
pub fn chunks(bytes: &[u8]) -> Vec<Chunk> {
    let mut all = Constants::new();
    let read = split(bytes).into_iter().map(|chunk| {
        let (chunk, constants) = read_with_constants(chunk);
        for (key, value) in constants {
            let before = all.insert(key, value.clone());
            assert!(before.is_none_or(|before| before == value), "{key:?} is {value} too");
        }
        chunk
    });
    read.collect()
}

/// The bytes of each chunk.
pub fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut chunks = Vec::new();
    while !bytes.is_empty() {
        let (chunk, rest) = bytes.split_at(usize::try_from(word(bytes, 8)).unwrap());
        chunks.push(chunk);
        bytes = rest;
    }
    chunks
}

/// The events of all chunks that have this type.
pub fn events(chunks: &[Chunk], of: &str) -> Vec<Value> {
    let all = chunks.iter().flat_map(|chunk| &chunk.events);
    all.filter(|event| event["type"] == of).cloned().collect()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Reads a chunk.
pub fn read_chunk(chunk: &[u8]) -> Chunk {
    read_with_constants(chunk).0
}

fn read_with_constants(chunk: &[u8]) -> (Chunk, Constants) {
    assert_eq!(chunk[..8], *b"FLR\0\0\x02\0\0");
    let [constants_at, metadata_at] = [16, 24].map(|at| usize::try_from(word(chunk, at)).unwrap());
    let (start_ns, duration_ns, start_ticks) =
        (word(chunk, 32), word(chunk, 40), word(chunk, 48).cast_signed());
    assert_eq!((word(chunk, 56), &chunk[64..68]), (1_000_000_000, &[0, 0, 0, 1][..]));
    let types = Types::read(&mut event_at(chunk, metadata_at, 0));
    let constants = types.constants(&mut event_at(chunk, constants_at, 1));
    let mut events = Vec::new();
    let mut at = 68;
    while at < constants_at {
        let mut length = Cursor(&chunk[at..]);
        let bytes = usize::try_from(length.number()).unwrap();
        let mut body = Cursor(&chunk[at + (chunk.len() - at - length.0.len())..at + bytes]);
        let type_id = body.number();
        let mut event = types.value(type_id, &mut body);
        assert_eq!(body.0.len(), 0, "{event}");
        types.resolve(&mut event, &constants);
        event["type"] = types.0[&type_id].name.clone().into();
        let after = event["startTime"].as_i64().unwrap() - start_ticks;
        assert!(after >= 0, "{event} begins before its chunk");
        let end = after + event["duration"].as_i64().unwrap_or(0);
        assert!(end <= duration_ns.cast_signed(), "{event} ends after its chunk");
        event["startTime"] = (start_ns + after.cast_unsigned()).into();
        events.push(event);
        at += bytes;
    }
    assert_eq!(at, constants_at);
    (Chunk { start_ns, duration_ns, events }, constants)
}

/// The number of events of a chunk, without reading them.
pub fn count_events(chunk: &[u8]) -> usize {
    let constants_at = usize::try_from(word(chunk, 16)).unwrap();
    let (mut at, mut count) = (68, 0);
    while at < constants_at {
        at += usize::try_from(Cursor(&chunk[at..]).number()).unwrap();
        count += 1;
    }
    count
}

/// The event at a place, after its type.
fn event_at(chunk: &[u8], at: usize, type_id: u64) -> Cursor<'_> {
    let mut whole = Cursor(&chunk[at..]);
    let bytes = usize::try_from(whole.number()).unwrap();
    let head = chunk.len() - at - whole.0.len();
    let mut event = Cursor(&chunk[at + head..at + bytes]);
    assert_eq!(event.number(), type_id);
    event
}

struct Cursor<'b>(&'b [u8]);

impl<'b> Cursor<'b> {
    fn byte(&mut self) -> u8 {
        let (byte, rest) = self.0.split_first().unwrap();
        self.0 = rest;
        *byte
    }

    fn number(&mut self) -> u64 {
        let mut value = 0;
        for shift in (0..56).step_by(7) {
            let byte = self.byte();
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return value;
            }
        }
        value | u64::from(self.byte()) << 56
    }

    fn text(&mut self) -> Option<&'b str> {
        match self.byte() {
            0 => None,
            1 => Some(""),
            3 => {
                let bytes = usize::try_from(self.number()).unwrap();
                let (text, rest) = self.0.split_at(bytes);
                self.0 = rest;
                Some(std::str::from_utf8(text).unwrap())
            }
            other => panic!("a text of kind {other}"),
        }
    }
}

struct Element {
    name: String,
    attributes: HashMap<String, String>,
    children: Vec<Element>,
}

impl Element {
    fn read(words: &[&str], event: &mut Cursor) -> Self {
        let word = |event: &mut Cursor| words[usize::try_from(event.number()).unwrap()].to_owned();
        let name = word(event);
        let attributes = (0..event.number()).map(|_| (word(event), word(event))).collect();
        let children = (0..event.number()).map(|_| Self::read(words, event)).collect();
        Self { name, attributes, children }
    }

    fn number(&self, name: &str) -> u64 {
        self.attributes[name].parse().unwrap()
    }

    fn children<'e>(&'e self, name: &'e str) -> impl Iterator<Item = &'e Self> {
        self.children.iter().filter(move |child| child.name == name)
    }
}

struct Type {
    name: String,
    is_simple: bool,
    fields: Vec<Field>,
}

struct Field {
    name: String,
    type_id: u64,
    is_constant: bool,
    is_array: bool,
}

type Constants = HashMap<(u64, u64), Value>;

struct Types(HashMap<u64, Type>);

impl Types {
    fn read(event: &mut Cursor) -> Self {
        (0..3).for_each(|_| _ = event.number());
        let words: Vec<&str> = (0..event.number()).map(|_| event.text().unwrap()).collect();
        let root = Element::read(&words, event);
        assert_eq!(event.0.len(), 0);
        let is_true =
            |of: &Element, name: &str| of.attributes.get(name).is_some_and(|text| text == "true");
        let field = |of: &Element| Field {
            name: of.attributes["name"].clone(),
            type_id: of.number("class"),
            is_constant: is_true(of, "constantPool"),
            is_array: of.attributes.contains_key("dimension"),
        };
        let of_class = |class: &Element| Type {
            name: class.attributes["name"].clone(),
            is_simple: is_true(class, "simpleType"),
            fields: class.children("field").map(field).collect(),
        };
        let metadata = root.children("metadata").next().unwrap();
        let types: HashMap<u64, Type> =
            metadata.children("class").map(|class| (class.number("id"), of_class(class))).collect();
        let all = types.values().flat_map(|of| &of.fields);
        all.for_each(|field| assert!(types.contains_key(&field.type_id), "{}", field.name));
        for class in metadata.children("class") {
            let inside = class.children("field").flat_map(|field| field.children("annotation"));
            for annotation in class.children("annotation").chain(inside) {
                assert!(types.contains_key(&annotation.number("class")));
            }
        }
        Self(types)
    }

    fn constants(&self, event: &mut Cursor) -> Constants {
        (0..3).for_each(|_| _ = event.number());
        event.byte();
        let mut constants = HashMap::new();
        for _ in 0..event.number() {
            let type_id = event.number();
            for _ in 0..event.number() {
                let key = (type_id, event.number());
                let value = self.value(type_id, event);
                assert!(constants.insert(key, value).is_none(), "{key:?} is there twice");
            }
        }
        assert_eq!(event.0.len(), 0);
        constants
    }

    fn value(&self, type_id: u64, event: &mut Cursor) -> Value {
        let of = &self.0[&type_id];
        match of.name.as_str() {
            "boolean" => (event.byte() == 1).into(),
            "int" => u32::try_from(event.number()).unwrap().cast_signed().into(),
            "long" => event.number().cast_signed().into(),
            "java.lang.String" => event.text().into(),
            _ => {
                let field = |field: &Field| (field.name.clone(), self.field(field, event));
                Value::Object(of.fields.iter().map(field).collect::<Map<_, _>>())
            }
        }
    }

    fn field(&self, field: &Field, event: &mut Cursor) -> Value {
        let one = |event: &mut Cursor| match field.is_constant {
            true => json!({ "constant": [field.type_id, event.number()] }),
            false => self.value(field.type_id, event),
        };
        if !field.is_array {
            return one(event);
        }
        let count = event.number();
        (0..count).map(|_| one(event)).collect()
    }

    /// Puts the constants in the places of their numbers.
    fn resolve(&self, value: &mut Value, constants: &Constants) {
        if let Some([type_id, number]) = value["constant"].as_array().map(Vec::as_slice) {
            let (type_id, number) = (type_id.as_u64().unwrap(), number.as_u64().unwrap());
            if number == 0 {
                *value = Value::Null;
                return;
            }
            *value = constants[&(type_id, number)].clone();
            if self.0[&type_id].is_simple {
                let fields = value.as_object().unwrap();
                *value = fields.values().next().unwrap().clone();
                return;
            }
        }
        match value {
            Value::Object(fields) => {
                fields.values_mut().for_each(|field| self.resolve(field, constants));
            }
            Value::Array(elements) => {
                elements.iter_mut().for_each(|element| self.resolve(element, constants));
            }
            _ => {}
        }
    }
}
