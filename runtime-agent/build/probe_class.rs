//! Builds the two forms of the probe class.

use std::error;

use rewriter::probe;
use ristretto_classfile::attributes::{Annotation, Attribute, Instruction};
use ristretto_classfile::{
    BaseType, ClassAccessFlags, ClassFile, ConstantPool, Field, FieldAccessFlags, FieldType,
    JAVA_5, Method, MethodAccessFlags,
};

use crate::call_site::{CallSite, HANDLE, SITE};
use crate::instructions::{
    Called, MAX_INLINE_SIZE, Native, calls_of, front, is_open, length, plain_guard, rest,
    statement_guard, sum_of,
};

type Result<T> = std::result::Result<T, Box<dyn error::Error>>;

const PROBES: [&str; 5] =
    [probe::START, probe::END, probe::THREW, probe::CAUGHT, probe::INITIALIZED];

/// The natives that `LockSupport` calls without a guard: a park takes much longer than they do.
const PARKS: [(&str, &str); 2] =
    [(probe::PARKING, probe::PARKING_DESCRIPTOR), (probe::PARKED, probe::PARKED_DESCRIPTOR)];

/// The class whose methods can be compiled out.
pub(crate) fn fast() -> Result<Vec<u8>> {
    let (mut class, muted) = Class::of_calls()?;
    let compiled_out = class.pool.add_field_ref(class.this, "compiledOut", "[B")?;
    let state = CallSite::new(&mut class.pool, class.this, "state")?;
    let trial = CallSite::new(&mut class.pool, class.this, "trial")?;
    let stable = class.annotations(&["Ljdk/internal/vm/annotation/Stable;"])?;
    let site = FieldType::Object(SITE.into());
    class.field("compiledOut", bytes(), FieldAccessFlags::empty(), vec![stable.clone()])?;
    class.field("state", site.clone(), FieldAccessFlags::empty(), vec![stable.clone()])?;
    class.field("trial", site, FieldAccessFlags::empty(), vec![stable.clone()])?;
    let handle = FieldType::Object(HANDLE.into());
    class.field("off", handle, FieldAccessFlags::empty(), vec![stable])?;
    let mut and_hidden = |name| class.annotations(&[&[name], &HIDDEN[..]].concat());
    let inlined = and_hidden("Ljdk/internal/vm/annotation/ForceInline;")?;
    let not_inlined = and_hidden("Ljdk/internal/vm/annotation/DontInline;")?;
    let hidden = class.annotations(&HIDDEN)?;
    let on = class.on;
    for name in PROBES {
        let native = class.native(name)?;
        let (rest_name, descriptor) = (format!("{}Rest", name.to_lowercase()), descriptor_of(name));
        let rest_of = class.pool.add_method_ref(class.this, rest_name.as_str(), descriptor)?;
        let rest = rest(&state, on, muted, &native);
        if length(&rest)? <= MAX_INLINE_SIZE {
            return Err("C1 would put the rest of the guard into callers".into());
        }
        let front = front(compiled_out, &state, &native, rest_of);
        class.probe(name, descriptor, PUBLIC, front, &inlined)?;
        // What follows an exception is expensive anyway. Until JDK 21, C2 compiles handlers that never ran.
        let is_rare = [probe::THREW, probe::CAUGHT].contains(&name);
        let annotations = if is_rare { &not_inlined } else { &hidden };
        class.probe(&rest_name, descriptor, PRIVATE, rest, annotations)?;
    }
    let mut prepare = state.set_up_off();
    for site in [&state, &trial] {
        prepare.extend(site.set_up());
    }
    prepare.push(Instruction::Return);
    class.helper("prepare", "()V", prepare)?;
    class.helper("change", "(I)V", state.change())?;
    class.helper("isOpen", "()I", is_open(compiled_out, &trial))?;
    let is_open = class.pool.add_method_ref(class.this, "isOpen", "()I")?;
    class.helper("countOpen", "(I)I", sum_of(is_open))?;
    class.helper("renewTrial", "()V", trial.renew())?;
    class.finish(muted)
}

/// The class that relies on no HotSpot internals.
pub(crate) fn plain() -> Result<Vec<u8>> {
    let (mut class, muted) = Class::of_calls()?;
    let hidden = class.annotations(&HIDDEN)?;
    for name in PROBES {
        let native = class.native(name)?;
        let guard = plain_guard(class.on, muted, &native);
        if length(&guard)? <= MAX_INLINE_SIZE {
            return Err("C1 would put the plain guard into callers".into());
        }
        class.probe(name, descriptor_of(name), PUBLIC, guard, &hidden)?;
    }
    class.finish(muted)
}

/// The class that the probes of JDBC drivers call:
///
/// ```java
/// public final class $TProfilerSql {                // package java.lang.invoke
///     @Stable private static byte[] matches;        // by id: 1 if the class never is a statement, 2 if it is
///     private static volatile boolean on;
///     @Hidden public static void Entered(int id, Object self, Object text) {
///         if (matches[id] != 2) return;
///         if (on) entered0(id, System.identityHashCode(self), self, text);
///     }
///     @Hidden public static void Returned(int id) { ... returned0(id); }         // and Failed(int)
///     @Hidden public static void Prepared(Object made, int id) {
///         ... prepared0(System.identityHashCode(made), id);
///     }
/// }
/// ```
/// The JIT treats an element that is not 0 as a constant.
pub(crate) fn statements() -> Result<Vec<u8>> {
    let mut class = Class::new(probe::STATEMENT_CLASS)?;
    let matches = class.pool.add_field_ref(class.this, "matches", "[B")?;
    let stable = class.annotations(&["Ljdk/internal/vm/annotation/Stable;"])?;
    class.field("matches", bytes(), FieldAccessFlags::empty(), vec![stable])?;
    let hidden = class.annotations(&HIDDEN)?;
    let hash = Instruction::Invokestatic(class.identity_hash()?);
    let entered = vec![
        Instruction::Iload_0,
        Instruction::Aload_1,
        hash.clone(),
        Instruction::Aload_1,
        Instruction::Aload_2,
    ];
    let prepared = vec![Instruction::Aload_0, hash, Instruction::Iload_1];
    let id = || vec![Instruction::Iload_0];
    for (name, descriptor, native, loads) in [
        (probe::ENTERED, probe::ENTERED_DESCRIPTOR, ENTERED0_DESCRIPTOR, entered),
        (probe::RETURNED, probe::DESCRIPTOR, "(I)V", id()),
        (probe::FAILED, probe::DESCRIPTOR, "(I)V", id()),
        (probe::PREPARED, probe::PREPARED_DESCRIPTOR, "(II)V", prepared),
    ] {
        let native_name = format!("{}0", name.to_lowercase());
        let flags = PRIVATE | MethodAccessFlags::NATIVE;
        class.method(&native_name, native, flags, vec![hidden.clone()])?;
        let native = class.pool.add_method_ref(class.this, native_name.as_str(), native)?;
        let id = if name == probe::PREPARED { Instruction::Iload_1 } else { Instruction::Iload_0 };
        let code = statement_guard(id, matches, class.on, loads, native);
        let attributes = vec![class.code(4, code), hidden.clone()];
        class.method(name, descriptor, PUBLIC, attributes)?;
    }
    class.write()
}

/// The native method behind [`probe::ENTERED`]: the id, the object's identity hash, the object and the text.
const ENTERED0_DESCRIPTOR: &str = "(IILjava/lang/Object;Ljava/lang/Object;)V";

/// The native method behind [`probe::THREW`]: see `Native::OfThrown`.
const THREW0_DESCRIPTOR: &str = "(IIILjava/lang/Object;)V";

fn descriptor_of(probe: &str) -> &'static str {
    if probe == probe::THREW { probe::THREW_DESCRIPTOR } else { probe::DESCRIPTOR }
}

const PUBLIC: MethodAccessFlags = MethodAccessFlags::PUBLIC;
const PRIVATE: MethodAccessFlags = MethodAccessFlags::PRIVATE;

/// The JDK moved the annotation after 11. A JVM that knows neither shows probes in stack traces; nothing else differs.
const HIDDEN: [&str; 2] =
    ["Ljdk/internal/vm/annotation/Hidden;", "Ljava/lang/invoke/LambdaForm$Hidden;"];

fn bytes() -> FieldType {
    FieldType::Array(Box::new(FieldType::Base(BaseType::Byte)))
}

/// A class being built, with the parts of both forms.
struct Class {
    pool: ConstantPool<'static>,
    this: u16,
    super_class: u16,
    code: u16,
    on: u16,
    fields: Vec<Field>,
    methods: Vec<Method>,
}

impl Class {
    /// A class with the field `on`.
    fn new(name: &str) -> Result<Self> {
        let mut pool = ConstantPool::default();
        let this = pool.add_class(name)?;
        let super_class = pool.add_class("java/lang/Object")?;
        let on = pool.add_field_ref(this, "on", "Z")?;
        let code = pool.add_utf8("Code")?;
        let (fields, methods) = (Vec::new(), Vec::new());
        let mut class = Self { pool, this, super_class, code, on, fields, methods };
        class.field(
            "on",
            FieldType::Base(BaseType::Boolean),
            FieldAccessFlags::VOLATILE,
            vec![],
        )?;
        Ok(class)
    }

    /// The class of calls, and its field `muted`.
    fn of_calls() -> Result<(Self, u16)> {
        let mut class = Self::new(probe::CLASS)?;
        let muted = class.pool.add_field_ref(class.this, "muted", "[B")?;
        class.field("muted", bytes(), FieldAccessFlags::empty(), vec![])?;
        Ok((class, muted))
    }

    fn annotations(&mut self, names: &[&str]) -> Result<Attribute> {
        let mut annotations = Vec::new();
        for name in names {
            let type_index = self.pool.add_utf8(name)?;
            annotations.push(Annotation { type_index, elements: vec![] });
        }
        let name_index = self.pool.add_utf8("RuntimeVisibleAnnotations")?;
        Ok(Attribute::RuntimeVisibleAnnotations { name_index, annotations })
    }

    /// Adds a private static field.
    fn field(
        &mut self,
        name: &str,
        field_type: FieldType,
        flags: FieldAccessFlags,
        attributes: Vec<Attribute>,
    ) -> Result<()> {
        self.fields.push(Field {
            access_flags: FieldAccessFlags::PRIVATE | FieldAccessFlags::STATIC | flags,
            name_index: self.pool.add_utf8(name)?,
            descriptor_index: self.pool.add_utf8(field_type.descriptor())?,
            field_type,
            attributes,
        });
        Ok(())
    }

    /// Adds a probe, or a part of one.
    fn probe(
        &mut self,
        name: &str,
        descriptor: &str,
        flags: MethodAccessFlags,
        code: Vec<Instruction>,
        annotations: &Attribute,
    ) -> Result<()> {
        let attributes = vec![self.code(4, code), annotations.clone()];
        self.method(name, descriptor, flags, attributes)
    }

    /// Adds a method that the agent calls.
    fn helper(&mut self, name: &str, descriptor: &str, code: Vec<Instruction>) -> Result<()> {
        let attributes = vec![self.code(4, code)];
        self.method(name, descriptor, PRIVATE, attributes)
    }

    fn code(&self, max_stack: u16, code: Vec<Instruction>) -> Attribute {
        Attribute::Code {
            name_index: self.code,
            max_stack,
            max_locals: 4,
            code,
            exception_table: vec![],
            attributes: vec![],
        }
    }

    fn method(
        &mut self,
        name: &str,
        descriptor: &str,
        flags: MethodAccessFlags,
        attributes: Vec<Attribute>,
    ) -> Result<()> {
        self.methods.push(Method {
            access_flags: flags | MethodAccessFlags::STATIC,
            name_index: self.pool.add_utf8(name)?,
            descriptor_index: self.pool.add_utf8(descriptor)?,
            attributes,
        });
        Ok(())
    }

    fn identity_hash(&mut self) -> Result<u16> {
        let system = self.pool.add_class("java/lang/System")?;
        Ok(self.pool.add_method_ref(system, "identityHashCode", "(Ljava/lang/Object;)I")?)
    }

    /// Adds the native method of a probe.
    fn native(&mut self, probe: &str) -> Result<Native> {
        let name = format!("{}0", probe.to_lowercase());
        let hidden = self.annotations(&HIDDEN)?;
        let descriptor = if probe == probe::THREW { THREW0_DESCRIPTOR } else { probe::DESCRIPTOR };
        self.method(&name, descriptor, PRIVATE | MethodAccessFlags::NATIVE, vec![hidden])?;
        let native = self.pool.add_method_ref(self.this, name.as_str(), descriptor)?;
        if probe != probe::THREW {
            return Ok(Native::OfId(native));
        }
        let get_class =
            self.pool.add_method_ref(self.super_class, "getClass", "()Ljava/lang/Class;")?;
        let identity_hash = self.identity_hash()?;
        Ok(Native::OfThrown { native, get_class, identity_hash })
    }

    /// Adds the methods that both forms have, and writes the class.
    fn finish(mut self, muted: u16) -> Result<Vec<u8>> {
        for (name, descriptor) in PARKS {
            let hidden = self.annotations(&HIDDEN)?;
            self.method(name, descriptor, PUBLIC | MethodAccessFlags::NATIVE, vec![hidden])?;
        }
        let mut probes = Vec::new();
        for name in PROBES {
            let probe = self.pool.add_method_ref(self.this, name, descriptor_of(name))?;
            probes.push(match name {
                probe::THREW => Called::WithObject(probe, muted),
                _ => Called::WithId(probe),
            });
        }
        let two = calls_of(probes.get(..2).unwrap_or_default());
        self.helper("calibrate", "(II)V", two)?;
        self.helper("exercise", "(II)V", calls_of(&probes))?;
        self.write()
    }

    fn write(self) -> Result<Vec<u8>> {
        let class = ClassFile {
            version: JAVA_5,
            constant_pool: self.pool,
            access_flags: ClassAccessFlags::PUBLIC
                | ClassAccessFlags::FINAL
                | ClassAccessFlags::SUPER
                | ClassAccessFlags::SYNTHETIC,
            this_class: self.this,
            super_class: self.super_class,
            fields: self.fields,
            methods: self.methods,
            ..ClassFile::default()
        };
        let mut bytes = Vec::new();
        class.to_bytes(&mut bytes)?;
        Ok(bytes)
    }
}
