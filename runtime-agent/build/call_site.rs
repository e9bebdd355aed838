//! The call sites of the probe class, and the method handles that are their targets.

use std::error;

use ristretto_classfile::ConstantPool;
use ristretto_classfile::attributes::Instruction;

use crate::instructions::target;

pub(crate) const SITE: &str = "java/lang/invoke/MutableCallSite";
pub(crate) const HANDLE: &str = "java/lang/invoke/MethodHandle";

/// A field with a call site: indices into the constant pool.
pub(crate) struct CallSite {
    pub field: u16,
    pub target: u16,
    off: u16,
    set: u16,
    site: u16,
    new_site: u16,
    int: u16,
    integer: u16,
    constant: u16,
}

impl CallSite {
    pub(crate) fn new(
        pool: &mut ConstantPool,
        this_class: u16,
        field: &str,
    ) -> Result<Self, Box<dyn error::Error>> {
        let handle = format!("L{HANDLE};");
        let site = pool.add_class(SITE)?;
        let integer = pool.add_class("java/lang/Integer")?;
        let handles = pool.add_class("java/lang/invoke/MethodHandles")?;
        let constant = format!("(Ljava/lang/Class;Ljava/lang/Object;){handle}");
        Ok(Self {
            field: pool.add_field_ref(this_class, field, &format!("L{SITE};"))?,
            off: pool.add_field_ref(this_class, "off", &handle)?,
            target: pool.add_field_ref(site, "target", &handle)?,
            set: pool.add_method_ref(site, "setTarget", &format!("({handle})V"))?,
            site,
            new_site: pool.add_method_ref(site, "<init>", &format!("({handle})V"))?,
            int: pool.add_field_ref(integer, "TYPE", "Ljava/lang/Class;")?,
            integer: pool.add_method_ref(integer, "valueOf", "(I)Ljava/lang/Integer;")?,
            constant: pool.add_method_ref(handles, "constant", constant.as_str())?,
        })
    }

    /// `if (state.target == off) return;`
    pub(crate) fn unless_off(&self, at: usize) -> Vec<Instruction> {
        vec![
            Instruction::Getstatic(self.field),
            Instruction::Getfield(self.target),
            Instruction::Getstatic(self.off),
            Instruction::If_acmpne(target(at, 5)),
            Instruction::Return,
        ]
    }

    /// Pushes a method handle that returns a number. It is a new handle each time.
    fn handle(&self, number: Instruction) -> [Instruction; 4] {
        [
            Instruction::Getstatic(self.int),
            number,
            Instruction::Invokestatic(self.integer),
            Instruction::Invokestatic(self.constant),
        ]
    }

    /// `off = MethodHandles.constant(int.class, 1);`
    pub(crate) fn set_up_off(&self) -> Vec<Instruction> {
        let mut code = self.handle(Instruction::Iconst_1).to_vec();
        code.push(Instruction::Putstatic(self.off));
        code
    }

    /// `FIELD = new MutableCallSite(MethodHandles.constant(int.class, 2));`
    pub(crate) fn set_up(&self) -> Vec<Instruction> {
        let mut code = vec![Instruction::New(self.site), Instruction::Dup];
        code.extend(self.handle(Instruction::Iconst_2));
        code.extend([
            Instruction::Invokespecial(self.new_site),
            Instruction::Putstatic(self.field),
        ]);
        code
    }

    /// `FIELD.setTarget(MethodHandles.constant(int.class, 2));`
    pub(crate) fn renew(&self) -> Vec<Instruction> {
        let mut code = vec![Instruction::Getstatic(self.field)];
        code.extend(self.handle(Instruction::Iconst_2));
        code.extend([Instruction::Invokevirtual(self.set), Instruction::Return]);
        code
    }

    /// `FIELD.setTarget(isOff != 0 ? off : MethodHandles.constant(int.class, 2));`
    pub(crate) fn change(&self) -> Vec<Instruction> {
        const IS_ON: u16 = 5;
        const SET: u16 = 9;
        let mut code = vec![
            Instruction::Getstatic(self.field),
            Instruction::Iload_0,
            Instruction::Ifeq(IS_ON),
            Instruction::Getstatic(self.off),
            Instruction::Goto(SET),
        ];
        code.extend(self.handle(Instruction::Iconst_2));
        code.extend([Instruction::Invokevirtual(self.set), Instruction::Return]);
        code
    }
}
