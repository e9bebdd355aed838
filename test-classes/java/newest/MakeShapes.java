package newest;

import static java.lang.constant.ConstantDescs.CD_Object;
import static java.lang.constant.ConstantDescs.CD_String;
import static java.lang.constant.ConstantDescs.CD_Throwable;
import static java.lang.constant.ConstantDescs.CD_int;
import static java.lang.constant.ConstantDescs.CD_void;
import static java.lang.constant.ConstantDescs.INIT_NAME;
import static java.lang.constant.ConstantDescs.MTD_void;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.classfile.AttributeMapper;
import java.lang.classfile.AttributeMapper.AttributeStability;
import java.lang.classfile.AttributedElement;
import java.lang.classfile.BufWriter;
import java.lang.classfile.ClassBuilder;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassReader;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.CustomAttribute;
import java.lang.classfile.Label;
import java.lang.classfile.attribute.StackMapFrameInfo;
import java.lang.classfile.attribute.StackMapFrameInfo.SimpleVerificationTypeInfo;
import java.lang.classfile.attribute.StackMapFrameInfo.VerificationTypeInfo;
import java.lang.classfile.attribute.StackMapTableAttribute;
import java.lang.classfile.instruction.DiscontinuedInstruction;
import java.lang.classfile.instruction.SwitchCase;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDescs;
import java.lang.constant.DirectMethodHandleDesc;
import java.lang.constant.DynamicConstantDesc;
import java.lang.constant.MethodHandleDesc;
import java.lang.constant.MethodTypeDesc;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/**
 * Writes classes of shapes that compilers rarely or never write. Each is in the default package and
 * has a static method {@code int run()}; it may throw.
 *
 * <p>Usage: {@code MakeShapes FOLDER}
 */
public final class MakeShapes {
    private static final int STATIC = ClassFile.ACC_PUBLIC | ClassFile.ACC_STATIC;
    private static final MethodTypeDesc INT_TO_INT = MethodTypeDesc.of(CD_int, CD_int);
    private static final MethodTypeDesc TO_INT = MethodTypeDesc.of(CD_int);
    private static final MethodTypeDesc TAKES_INT = MethodTypeDesc.of(CD_void, CD_int);
    private static final ClassDesc FAILURE = ClassDesc.of("java.lang.IllegalStateException");
    /** What Java 11 can run. */
    private static final int JAVA_11 = 55;

    private final Path folder;

    private MakeShapes(Path folder) {
        this.folder = folder;
    }

    public static void main(String[] args) throws IOException {
        Path folder = Path.of(args[0]);
        Files.createDirectories(folder);
        MakeShapes make = new MakeShapes(folder);
        make.sizes();
        make.branches();
        make.switches();
        make.subroutines();
        make.wide();
        make.uninitialized();
        make.constructors();
        make.constructorsWithoutThis();
        make.handlers();
        make.startsWithTarget();
        make.deadCode();
        make.fullPools();
        make.unknownAttributes();
        make.dynamicConstants();
        make.preview();
    }

    private void write(String name, int major, int minor, ClassFile classFile, Consumer<ClassBuilder> contents) {
        byte[] bytes = classFile.build(ClassDesc.of(name), b -> {
            b.withVersion(major, minor).withFlags(ClassFile.ACC_PUBLIC | ClassFile.ACC_SUPER);
            contents.accept(b);
        });
        try {
            Files.write(folder.resolve(name + ".class"), bytes);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void shape(String name, int major, Consumer<ClassBuilder> contents) {
        ClassFile.StackMapsOption frames = major < 50
                ? ClassFile.StackMapsOption.DROP_STACK_MAPS
                : ClassFile.StackMapsOption.GENERATE_STACK_MAPS;
        ClassFile classFile = ClassFile.of(frames, ClassFile.ShortJumpsOption.FAIL_ON_SHORT_JUMPS);
        // Before 45.3 code had another form.
        write(name, major, major == 45 ? 3 : 0, classFile, contents);
    }

    private static void run(ClassBuilder b, Consumer<CodeBuilder> code) {
        b.withMethodBody("run", TO_INT, STATIC, code);
    }

    private static void nops(CodeBuilder c, int count) {
        for (int i = 0; i < count; i++) {
            c.nop();
        }
    }

    private static ClassDesc self(String name) {
        return ClassDesc.of(name);
    }

    /** Calls a method of the class with an int; an exception counts as 1000. */
    private static void call(CodeBuilder c, String name, String method, int argument) {
        c.trying(
                t -> t.loadConstant(argument).invokestatic(self(name), method, INT_TO_INT).iload(0).iadd().istore(0),
                x -> x.catching(FAILURE, h -> h.pop().iinc(0, 1000)));
    }

    /** A run that calls a method with several ints and adds up what it gives. */
    private static void runs(ClassBuilder b, String name, String method, int... arguments) {
        run(b, c -> {
            c.iconst_0().istore(0);
            for (int argument : arguments) {
                call(c, name, method, argument);
            }
            c.iload(0).ireturn();
        });
    }

    private static void fail(CodeBuilder c) {
        c.new_(FAILURE).dup().invokespecial(FAILURE, INIT_NAME, MTD_void).athrow();
    }

    /** Code of 65,535 bytes less 0 to 64. */
    private void sizes() {
        for (int less = 0; less <= 64; less++) {
            int length = 65_535 - less;
            shape(String.format("Size%02d", less), JAVA_11, b -> run(b, c -> {
                nops(c, length - 2);
                c.iconst_3().ireturn();
            }));
        }
    }

    /** Branches whose distance is near 32,767, with a return within. */
    private void branches() {
        for (int less = 0; less <= 16; less++) {
            int distance = 32_767 - less;
            String forward = String.format("Forward%02d", less);
            shape(forward, JAVA_11, b -> {
                runs(b, forward, "jump", 0, 1);
                b.withMethodBody("jump", INT_TO_INT, STATIC, c -> {
                    Label far = c.newLabel();
                    // ifeq, iconst_1, ireturn, nops.
                    c.iload(0).ifeq(far).iconst_1().ireturn();
                    // Reached from nowhere but the frame that is made for it.
                    Label middle = c.newBoundLabel();
                    nops(c, distance - 3 - 2 - 2);
                    c.iconst_2().ireturn();
                    c.labelBinding(far).iload(0).ifne(middle).bipush(7).ireturn();
                });
            });
            String backward = String.format("Backward%02d", less);
            shape(backward, JAVA_11, b -> {
                runs(b, backward, "jump", 0, 1);
                b.withMethodBody("jump", INT_TO_INT, STATIC, c -> {
                    Label loop = c.newLabel();
                    Label end = c.newLabel();
                    c.goto_(loop);
                    Label back = c.newBoundLabel();
                    c.iload(0).ifne(end).iconst_5().ireturn().labelBinding(end).iconst_4().ireturn();
                    c.labelBinding(loop);
                    // The branch back stands behind the nops.
                    nops(c, distance - 8);
                    c.goto_(back);
                });
            });
            String wide = String.format("GotoW%02d", less);
            shape(wide, JAVA_11, b -> {
                runs(b, wide, "jump", 0, 1);
                b.withMethodBody("jump", INT_TO_INT, STATIC, c -> {
                    Label far = c.newLabel();
                    Label next = c.newLabel();
                    c.iload(0).ifeq(next).iconst_1().ireturn();
                    c.labelBinding(next).goto_w(far);
                    nops(c, distance);
                    c.labelBinding(far).iconst_2().ireturn();
                });
            });
        }
    }

    /** Switches at each alignment, with one case and with thousands, and returns among the cases. */
    private void switches() {
        for (int alignment = 0; alignment < 4; alignment++) {
            for (int cases : new int[] {1, 4, 3000}) {
                int nops = alignment;
                String table = "Table" + alignment + "x" + cases;
                shape(table, JAVA_11, b -> {
                    runs(b, table, "pick", -1, 0, cases - 1, cases, 2);
                    b.withMethodBody("pick", INT_TO_INT, STATIC, c -> pick(c, nops, cases, true));
                });
                String lookup = "Lookup" + alignment + "x" + cases;
                shape(lookup, JAVA_11, b -> {
                    runs(b, lookup, "pick", -1, 0, (cases - 1) * 10, cases, 20);
                    b.withMethodBody("pick", INT_TO_INT, STATIC, c -> pick(c, nops, cases, false));
                });
            }
        }
    }

    private static void pick(CodeBuilder c, int nops, int cases, boolean isTable) {
        Label otherwise = c.newLabel();
        Label first = c.newLabel();
        Label second = c.newLabel();
        List<SwitchCase> list = new ArrayList<>();
        for (int i = 0; i < cases; i++) {
            list.add(SwitchCase.of(isTable ? i : i * 10, i % 2 == 0 ? first : second));
        }
        nops(c, nops);
        c.iload(0);
        if (isTable) {
            c.tableswitch(0, cases - 1, otherwise, list);
        } else {
            c.lookupswitch(otherwise, list);
        }
        c.labelBinding(first).iconst_1().ireturn();
        c.labelBinding(second).bipush(20).ireturn();
        c.labelBinding(otherwise);
        // A second switch, behind what was inserted.
        Label end = c.newLabel();
        c.iload(0).tableswitch(-1, -1, end, List.of(SwitchCase.of(-1, end)));
        c.labelBinding(end).sipush(300).ireturn();
    }

    /** finally blocks as subroutines, which class files had up to version 49. */
    private void subroutines() {
        for (int major = 45; major <= 49; major++) {
            String name = "Subroutine" + major;
            shape(name, major, b -> {
                runs(b, name, "guarded", 0, 1, 2, 3);
                nestedSubroutine(b);
                b.withMethodBody("guarded", INT_TO_INT, STATIC, c -> {
                    Label start = c.newBoundLabel();
                    Label fails = c.newLabel();
                    Label handler = c.newLabel();
                    Label sub = c.newLabel();
                    c.iload(0).iconst_1().if_icmpeq(fails);
                    c.iload(0).istore(1);
                    Label end = c.newBoundLabel();
                    c.with(DiscontinuedInstruction.JsrInstruction.of(sub)).iload(1).ireturn();
                    c.labelBinding(fails);
                    Label start2 = c.newBoundLabel();
                    fail(c);
                    Label end2 = c.newBoundLabel();
                    c.labelBinding(handler).astore(2).with(DiscontinuedInstruction.JsrInstruction.of(sub)).aload(2).athrow();
                    c.labelBinding(sub).astore(3).iinc(0, 5).with(DiscontinuedInstruction.RetInstruction.of(3));
                    c.exceptionCatchAll(start, end, handler).exceptionCatchAll(start2, end2, handler);
                });
            });
        }
    }

    /** A subroutine within a subroutine, reached by jsr_w. */
    private static void nestedSubroutine(ClassBuilder b) {
        b.withMethodBody("nested", INT_TO_INT, STATIC, c -> {
            Label outer = c.newLabel();
            Label inner = c.newLabel();
            c.with(DiscontinuedInstruction.JsrInstruction.of(java.lang.classfile.Opcode.JSR_W, outer)).iload(0).ireturn();
            c.labelBinding(outer).astore(1).with(DiscontinuedInstruction.JsrInstruction.of(inner));
            c.iinc(0, 1).with(DiscontinuedInstruction.RetInstruction.of(1));
            c.labelBinding(inner).astore(300).iinc(0, 1).with(DiscontinuedInstruction.RetInstruction.of(300));
        });
    }

    private void wide() {
        shape("Wide", JAVA_11, b -> {
            runs(b, "Wide", "wide", 3, 4000);
            b.withMethodBody("wide", INT_TO_INT, STATIC, c -> {
                c.iload(0).istore(300).iinc(300, 20_000).iinc(0, 1000).lconst_1().lstore(301);
                c.fconst_1().fstore(400).dconst_1().dstore(500).aconst_null().astore(600);
                Label isNull = c.newLabel();
                c.aload(600).ifnull(isNull).iconst_0().ireturn();
                c.labelBinding(isNull).iload(300).lload(301).l2i().iadd().dload(500).d2i().iadd().fload(400).f2i().iadd();
                c.iload(0).iadd().ireturn();
            });
        });
    }

    /** Frames with objects that are made and not yet initialized. */
    private void uninitialized() {
        shape("Uninitialized", JAVA_11, b -> {
            runs(b, "Uninitialized", "make", 0, 1, -5);
            constructor(b, CD_Object, c -> c.aload(0).invokespecial(CD_Object, INIT_NAME, MTD_void).return_());
            b.withMethodBody("make", INT_TO_INT, STATIC, c -> {
                ClassDesc builder = ClassDesc.of("java.lang.StringBuilder");
                Label negative = c.newLabel();
                Label made = c.newLabel();
                // Two of them on the stack, over branches and a loop, and a `new` at the very start.
                c.new_(builder).dup().new_(CD_Object).dup();
                c.iload(0).ifeq(negative).iconst_1().goto_(made);
                c.labelBinding(negative).bipush(20);
                c.labelBinding(made).istore(1);
                Label loop = c.newBoundLabel();
                c.iinc(1, -1).iload(1).ifgt(loop);
                c.invokespecial(CD_Object, INIT_NAME, MTD_void).invokevirtual(CD_Object, "hashCode", TO_INT);
                c.iconst_0().iand().bipush(16).iadd().invokespecial(builder, INIT_NAME, TAKES_INT);
                c.iload(0).invokevirtual(builder, "append", MethodTypeDesc.of(builder, CD_int));
                Label ok = c.newLabel();
                c.iload(0).ifge(ok);
                fail(c);
                c.labelBinding(ok).invokevirtual(builder, "length", TO_INT).ireturn();
            });
        });
    }

    private static void constructor(ClassBuilder b, ClassDesc superclass, Consumer<CodeBuilder> code) {
        b.withSuperclass(superclass).withMethodBody(INIT_NAME, MTD_void, ClassFile.ACC_PUBLIC, code);
    }

    /** What Java code cannot do before super(...), or could not for long. */
    private void constructors() {
        ClassDesc exception = ClassDesc.of("java.lang.RuntimeException");
        MethodTypeDesc takesString = MethodTypeDesc.of(CD_void, CD_String);
        for (int major : new int[] {46, 49, 50, JAVA_11}) {
            String name = "Constructor" + major;
            ClassDesc self = self(name);
            shape(name, major, b -> {
                b.withSuperclass(exception);
                b.withField("seen", CD_int, ClassFile.ACC_PUBLIC);
                runs(b, name, "make", 0, 1, 2, 3, 4, 5);
                // Loops and branches, and calls of one of two constructors.
                b.withMethodBody(INIT_NAME, TAKES_INT, ClassFile.ACC_PUBLIC, c -> {
                    Label other = c.newLabel();
                    Label end = c.newLabel();
                    c.iload(1).istore(2);
                    Label loop = c.newBoundLabel();
                    c.iinc(2, -1).iload(2).ifgt(loop);
                    c.iload(1).iconst_1().iand().ifeq(other);
                    c.aload(0).aload(0).pop().iload(1).invokestatic(CD_String, "valueOf", MethodTypeDesc.of(CD_String, CD_int));
                    c.invokespecial(exception, INIT_NAME, takesString).goto_(end);
                    c.labelBinding(other).aload(0).iload(1).iconst_2().invokespecial(self, INIT_NAME, MethodTypeDesc.of(CD_void, CD_int, CD_int));
                    c.labelBinding(end).aload(0).iload(2).putfield(self, "seen", CD_int).return_();
                });
                // Fields of its own class may be written before super(...) since Java 1.4.
                b.withMethodBody(INIT_NAME, MethodTypeDesc.of(CD_void, CD_int, CD_int), ClassFile.ACC_PUBLIC, c -> {
                    Label fine = c.newLabel();
                    c.aload(0).iload(1).putfield(self, "seen", CD_int);
                    c.iload(1).iconst_4().if_icmpne(fine);
                    fail(c);
                    c.labelBinding(fine).aload(0).invokespecial(exception, INIT_NAME, MTD_void).return_();
                });
                b.withMethodBody("make", INT_TO_INT, STATIC, c ->
                    c.new_(self).dup().iload(0).invokespecial(self, INIT_NAME, TAKES_INT).getfield(self, "seen", CD_int).ireturn());
            });
        }
        // try blocks before super(...): `this` is uninitialized in the handler too.
        String name = "TryBeforeSuper";
        ClassDesc self = self(name);
        shape(name, JAVA_11, b -> {
            b.withSuperclass(exception);
            runs(b, name, "make", 0, 1, 2);
            b.withMethodBody("check", INT_TO_INT, STATIC, c -> {
                Label fine = c.newLabel();
                c.iload(0).ifne(fine);
                fail(c);
                c.labelBinding(fine).iload(0).ireturn();
            });
            b.withMethodBody(INIT_NAME, TAKES_INT, ClassFile.ACC_PUBLIC, c -> {
                c.trying(
                        t -> t.iload(1).invokestatic(self, "check", INT_TO_INT).istore(1),
                        x -> x.catching(FAILURE, h -> h.pop().bipush(9).istore(1)));
                c.trying(
                        t -> t.iload(1).invokestatic(self, "check", INT_TO_INT).pop(),
                        x -> x.catching(CD_Throwable, h -> h.pop()));
                c.aload(0).iload(1).invokestatic(CD_String, "valueOf", MethodTypeDesc.of(CD_String, CD_int));
                c.invokespecial(exception, INIT_NAME, takesString);
                c.trying(
                        t -> t.iload(1).iconst_2().isub().invokestatic(self, "check", INT_TO_INT).pop(),
                        x -> x.catching(FAILURE, h -> h.pop()));
                c.return_();
            });
            b.withMethodBody("make", INT_TO_INT, STATIC, c -> c.new_(self).dup().iload(0).invokespecial(self, INIT_NAME, TAKES_INT)
                .invokevirtual(self, "getMessage", MethodTypeDesc.of(CD_String)).invokevirtual(CD_String, "length", TO_INT).ireturn());
        });
        // A constructor that never gets to super(...).
        shape("NeverSuper", JAVA_11, b -> {
            runs(b, "NeverSuper", "make", 1);
            constructor(b, CD_Object, MakeShapes::fail);
            b.withMethodBody("make", INT_TO_INT, STATIC, c ->
                c.new_(self("NeverSuper")).dup().invokespecial(self("NeverSuper"), INIT_NAME, MTD_void).pop().iconst_1().ireturn());
        });
    }

    /** Constructors in whose first variable `this` is not, before super(...): no handler could see it. */
    private void constructorsWithoutThis() {
        ClassDesc exception = ClassDesc.of("java.lang.RuntimeException");
        ClassDesc checks = self("WithoutThis");
        MethodTypeDesc takesString = MethodTypeDesc.of(CD_void, CD_String);
        MethodTypeDesc intToString = MethodTypeDesc.of(CD_String, CD_int);
        // It is in another variable, and a frame does not have it in its own.
        ClassFile noFrames = ClassFile.of(ClassFile.StackMapsOption.DROP_STACK_MAPS);
        write("FrameWithoutThis", JAVA_11, 0, noFrames, b -> {
            b.withSuperclass(exception);
            run(b, c -> c.iconst_0().ireturn());
            b.withMethodBody(INIT_NAME, TAKES_INT, ClassFile.ACC_PUBLIC, c -> {
                Label label = c.newLabel();
                c.aload(0).astore(2).iload(1).ifeq(label).iload(1).invokestatic(checks, "check", INT_TO_INT).pop();
                c.labelBinding(label).aload(2).iload(1).invokestatic(checks, "check", INT_TO_INT);
                c.invokestatic(CD_String, "valueOf", intToString).invokespecial(exception, INIT_NAME, takesString).return_();
                List<VerificationTypeInfo> locals = List.of(SimpleVerificationTypeInfo.TOP,
                        SimpleVerificationTypeInfo.INTEGER, SimpleVerificationTypeInfo.UNINITIALIZED_THIS);
                c.with(StackMapTableAttribute.of(List.of(StackMapFrameInfo.of(label, locals, List.of()))));
            });
        });
        // As R8 does: it is on the stack, and its variable serves for something else.
        shape("ReusedThis", JAVA_11, b -> {
            b.withSuperclass(exception);
            run(b, c -> c.iconst_0().ireturn());
            b.withMethodBody(INIT_NAME, TAKES_INT, ClassFile.ACC_PUBLIC, c ->
                c.aload(0).iload(1).invokestatic(checks, "check", INT_TO_INT).invokestatic(CD_String, "valueOf", intToString)
                    .astore(0).iload(1).iconst_1().isub().invokestatic(checks, "check", INT_TO_INT).pop()
                    .aload(0).invokespecial(exception, INIT_NAME, takesString).return_());
        });
        shape("WithoutThis", JAVA_11, b -> {
            runs(b, "WithoutThis", "make", 0, 1, 2, 300);
            b.withMethodBody("check", INT_TO_INT, STATIC, c -> {
                Label fine = c.newLabel();
                c.iload(0).ifne(fine);
                fail(c);
                c.labelBinding(fine).iload(0).ireturn();
            });
            b.withMethodBody("make", INT_TO_INT, STATIC, c -> {
                c.iconst_0().istore(1);
                for (String name : List.of("FrameWithoutThis", "ReusedThis")) {
                    c.trying(
                            t -> t.new_(self(name)).dup().iload(0).invokespecial(self(name), INIT_NAME, TAKES_INT)
                                .invokevirtual(self(name), "getMessage", MethodTypeDesc.of(CD_String))
                                .invokevirtual(CD_String, "length", TO_INT).iload(1).iadd().istore(1),
                            x -> x.catching(FAILURE, h -> h.pop().iinc(1, 100)));
                }
                c.iload(1).ireturn();
            });
        });
    }

    /** Exception tables of every kind. */
    private void handlers() {
        for (int major : new int[] {48, JAVA_11}) {
            String name = "Handlers" + major;
            ClassDesc self = self(name);
            shape(name, major, b -> {
                run(b, c -> {
                    c.iconst_0().istore(0);
                    for (String method : List.of("selfCovering", "shared", "sharedByErrors", "alsoTarget", "alsoTargetOfErrors", "overlapping", "last", "inEffectEmpty", "handlerReturns")) {
                        for (int i = 0; i < 3; i++) {
                            call(c, name, method, i);
                        }
                    }
                    c.iload(0).ireturn();
                });
                b.withMethodBody("maybe", INT_TO_INT, STATIC, c -> {
                    Label fine = c.newLabel();
                    c.iload(0).iconst_1().if_icmpne(fine);
                    fail(c);
                    c.labelBinding(fine).iload(0).ireturn();
                });
                // As javac protects the exit from a monitor: the handler lies in its own range.
                b.withMethodBody("selfCovering", INT_TO_INT, STATIC, c -> {
                    Label handler = c.newLabel();
                    c.ldc("a lock").dup().astore(1).monitorenter();
                    Label start = c.newBoundLabel();
                    c.iload(0).invokestatic(self, "maybe", INT_TO_INT).istore(2).aload(1).monitorexit();
                    Label end = c.newBoundLabel();
                    c.iload(2).ireturn();
                    c.labelBinding(handler).astore(3).aload(1).monitorexit();
                    Label end2 = c.newBoundLabel();
                    c.aload(3).athrow();
                    c.exceptionCatchAll(start, end, handler).exceptionCatchAll(handler, end2, handler);
                });
                // One handler for two ranges of different types, one of them without a call.
                b.withMethodBody("shared", INT_TO_INT, STATIC, c -> {
                    Label handler = c.newLabel();
                    Label start = c.newBoundLabel();
                    c.iload(0).invokestatic(self, "maybe", INT_TO_INT).istore(1);
                    Label middle = c.newBoundLabel();
                    c.iconst_1().iload(0).idiv().pop();
                    Label end = c.newBoundLabel();
                    c.iload(1).ireturn();
                    c.labelBinding(handler).pop().bipush(50).ireturn();
                    c.exceptionCatch(start, middle, handler, FAILURE).exceptionCatch(middle, end, handler, ClassDesc.of("java.lang.ArithmeticException"));
                });
                // One handler for two types of which each catches StackOverflowErrors.
                b.withMethodBody("sharedByErrors", INT_TO_INT, STATIC, c -> {
                    Label handler = c.newLabel();
                    Label start = c.newBoundLabel();
                    c.iload(0).invokestatic(self, "maybe", INT_TO_INT).istore(1);
                    Label middle = c.newBoundLabel();
                    c.iload(0).iconst_1().iadd().invokestatic(self, "maybe", INT_TO_INT).pop();
                    Label end = c.newBoundLabel();
                    c.iload(1).ireturn();
                    c.labelBinding(handler).pop().bipush(55).ireturn();
                    c.exceptionCatch(start, middle, handler, CD_Throwable).exceptionCatchAll(middle, end, handler);
                });
                // The handler is jumped to as well, with an exception that was made.
                for (ClassDesc caught : List.of(FAILURE, CD_Throwable)) {
                    b.withMethodBody(caught == FAILURE ? "alsoTarget" : "alsoTargetOfErrors", INT_TO_INT, STATIC, c -> {
                        Label handler = c.newLabel();
                        Label jump = c.newLabel();
                        Label start = c.newBoundLabel();
                        c.iload(0).ifeq(jump).iload(0).invokestatic(self, "maybe", INT_TO_INT).ireturn();
                        Label end = c.newBoundLabel();
                        c.labelBinding(jump).new_(FAILURE).dup().invokespecial(FAILURE, INIT_NAME, MTD_void).goto_(handler);
                        c.labelBinding(handler).invokevirtual(caught, "getMessage", MethodTypeDesc.of(CD_String)).pop().bipush(60).ireturn();
                        c.exceptionCatch(start, end, handler, caught);
                    });
                }
                b.withMethodBody("overlapping", INT_TO_INT, STATIC, c -> {
                    Label inner = c.newLabel();
                    Label outer = c.newLabel();
                    Label start = c.newBoundLabel();
                    c.nop();
                    Label start2 = c.newBoundLabel();
                    c.iload(0).invokestatic(self, "maybe", INT_TO_INT).pop();
                    Label end = c.newBoundLabel();
                    c.iload(0).iconst_1().iadd().invokestatic(self, "maybe", INT_TO_INT).ireturn();
                    Label end2 = c.newBoundLabel();
                    c.labelBinding(inner).pop().iload(0).invokestatic(self, "maybe", INT_TO_INT).ireturn();
                    Label end3 = c.newBoundLabel();
                    c.labelBinding(outer).pop().bipush(70).ireturn();
                    c.exceptionCatch(start, end, inner, FAILURE);
                    c.exceptionCatch(start2, end2, outer, CD_Throwable);
                    c.exceptionCatchAll(inner, end3, outer);
                });
                // The range ends with the code, and covers a return.
                b.withMethodBody("last", INT_TO_INT, STATIC, c -> {
                    Label body = c.newLabel();
                    Label handler = c.newLabel();
                    c.goto_(body);
                    c.labelBinding(handler).pop().bipush(80).ireturn();
                    c.labelBinding(body);
                    Label start = c.newBoundLabel();
                    c.iload(0).invokestatic(self, "maybe", INT_TO_INT).ireturn();
                    c.exceptionCatchAll(start, c.endLabel(), handler);
                });
                // Nothing in the range can throw, and the handler is a return.
                b.withMethodBody("inEffectEmpty", INT_TO_INT, STATIC, c -> {
                    Label handler = c.newLabel();
                    Label start = c.newBoundLabel();
                    c.nop().nop();
                    Label end = c.newBoundLabel();
                    c.iload(0).ireturn();
                    c.labelBinding(handler).pop().iconst_m1().ireturn();
                    c.exceptionCatchAll(start, end, handler);
                });
                // A handler that is a return instruction itself; it covers itself too.
                MethodTypeDesc toObject = MethodTypeDesc.of(CD_Object, CD_int);
                b.withMethodBody("returnsException", toObject, STATIC, c -> {
                    Label handler = c.newLabel();
                    Label start = c.newBoundLabel();
                    c.iload(0).invokestatic(self, "maybe", INT_TO_INT).pop().aconst_null().goto_(handler);
                    c.labelBinding(handler).areturn();
                    c.exceptionCatchAll(start, c.endLabel(), handler);
                });
                b.withMethodBody("handlerReturns", INT_TO_INT, STATIC, c -> {
                    Label isNull = c.newLabel();
                    c.iload(0).invokestatic(self, "returnsException", toObject).ifnull(isNull).bipush(90).ireturn();
                    c.labelBinding(isNull).iconst_0().ireturn();
                });
            });
        }
    }

    private void startsWithTarget() {
        for (int major : new int[] {47, JAVA_11}) {
            String name = "StartsWithTarget" + major;
            shape(name, major, b -> {
                runs(b, name, "loop", 5, 1);
                switchToStart(b);
                b.withMethodBody("loop", INT_TO_INT, STATIC, c -> {
                    Label start = c.newBoundLabel();
                    c.iinc(0, -1).iload(0).ifgt(start).iload(0).ireturn();
                });
            });
        }
        shape("ReturnAtStart", JAVA_11, b -> {
            run(b, c -> c.invokestatic(self("ReturnAtStart"), "nothing", MTD_void).iconst_1().ireturn());
            b.withMethodBody("nothing", MTD_void, STATIC, c -> c.return_());
        });
    }

    /** A switch whose cases lead to the start of the code. */
    private static void switchToStart(ClassBuilder b) {
        b.withMethodBody("jumpsBack", INT_TO_INT, STATIC, c -> {
            Label start = c.newBoundLabel();
            Label end = c.newLabel();
            c.iinc(0, -1).iload(0).tableswitch(1, 2, end, List.of(SwitchCase.of(1, start), SwitchCase.of(2, start)));
            c.labelBinding(end).iload(0).ireturn();
        });
    }

    private void deadCode() {
        // Before frames, dead code is not even looked at.
        write("DeadCode48", 48, 0, ClassFile.of(ClassFile.StackMapsOption.DROP_STACK_MAPS, ClassFile.DeadCodeOption.KEEP_DEAD_CODE), MakeShapes::dead);
        write("DeadCode55", JAVA_11, 0, ClassFile.of(ClassFile.DeadCodeOption.PATCH_DEAD_CODE), MakeShapes::dead);
    }

    private static void dead(ClassBuilder b) {
        run(b, c -> {
            Label end = c.newLabel();
            c.goto_(end);
            c.iconst_0().pop().iconst_1().ireturn();
            c.labelBinding(end).iconst_2().ireturn();
            c.aconst_null().athrow();
        });
        // Dead code in a constructor is in neither of its parts.
        constructor(b, CD_Object, c -> {
            Label end = c.newLabel();
            c.aload(0).goto_(end);
            c.aconst_null().athrow();
            c.labelBinding(end).invokespecial(CD_Object, INIT_NAME, MTD_void).return_();
            c.nop().return_();
        });
    }

    /** Constant pools of 65,535 entries less 0 to 10, and with just room enough. */
    private void fullPools() {
        for (int less : new int[] {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14, 16, 17, 18, 19, 20, 21, 22, 24, 30}) {
            String name = String.format("Pool%02d", less);
            shape(name, JAVA_11, b -> {
                runs(b, name, "pick", 0, 1);
                b.withMethodBody("pick", INT_TO_INT, STATIC, c -> {
                    Label other = c.newLabel();
                    c.iload(0).ifeq(other).iconst_1().ireturn();
                    c.labelBinding(other);
                    fail(c);
                });
                // Names that the class file needs in any case, so that only numbers follow.
                b.constantPool().utf8Entry("Code");
                b.constantPool().utf8Entry("StackMapTable");
                b.constantPool().classEntry(CD_Object);
                for (int i = 0; b.constantPool().size() < 65_535 - less; i++) {
                    b.constantPool().intEntry(1_000_000 + i);
                }
            });
        }
    }

    /** An attribute that nobody knows. */
    private static final class Unknown extends CustomAttribute<Unknown> {
        private static final AttributeMapper<Unknown> MAPPER = new AttributeMapper<>() {
            @Override
            public String name() {
                return "com.example.Unknown";
            }

            @Override
            public Unknown readAttribute(AttributedElement enclosing, ClassReader reader, int position) {
                throw new UnsupportedOperationException();
            }

            @Override
            public void writeAttribute(BufWriter writer, Unknown attribute) {
                writer.writeIndex(writer.constantPool().utf8Entry(name()));
                writer.writeInt(5);
                writer.writeBytes(new byte[] {1, 2, 3, 4, 5});
            }

            @Override
            public AttributeStability stability() {
                return AttributeStability.STATELESS;
            }
        };

        Unknown() {
            super(MAPPER);
        }
    }

    private void unknownAttributes() {
        shape("UnknownAttributes", JAVA_11, b -> {
            b.with(new Unknown());
            b.withField("field", CD_int, f -> f.withFlags(ClassFile.ACC_STATIC).with(new Unknown()));
            b.withMethod("run", TO_INT, STATIC, m -> m.with(new Unknown()).withCode(c -> {
                Label other = c.newLabel();
                c.with(new Unknown());
                c.iconst_1().ifeq(other).iconst_1().ireturn().labelBinding(other).iconst_2().ireturn();
            }));
        });
    }

    private void dynamicConstants() {
        DirectMethodHandleDesc primitive = MethodHandleDesc.ofMethod(DirectMethodHandleDesc.Kind.STATIC,
                ClassDesc.of("java.lang.invoke.ConstantBootstraps"), "primitiveClass",
                MethodTypeDesc.of(ConstantDescs.CD_Class, ConstantDescs.CD_MethodHandles_Lookup, CD_String, ConstantDescs.CD_Class));
        shape("DynamicConstant", JAVA_11, b -> run(b, c -> {
            c.ldc(DynamicConstantDesc.ofNamed(primitive, "I", ConstantDescs.CD_Class));
            c.invokevirtual(ConstantDescs.CD_Class, "getName", MethodTypeDesc.of(CD_String)).invokevirtual(CD_String, "length", TO_INT).ireturn();
        }));
    }

    /** A class of a preview version, which only the JVM of that version runs. */
    private void preview() {
        int major = ClassFile.latestMajorVersion();
        write("Preview", major, ClassFile.PREVIEW_MINOR_VERSION, ClassFile.of(), b -> run(b, c -> c.bipush(42).ireturn()));
    }
}
