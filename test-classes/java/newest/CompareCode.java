package newest;

import java.lang.classfile.Attribute;
import java.lang.classfile.Attributes;
import java.lang.classfile.CodeElement;
import java.lang.classfile.Instruction;
import java.lang.classfile.Label;
import java.lang.classfile.MethodModel;
import java.lang.classfile.Opcode;
import java.lang.classfile.TypeAnnotation;
import java.lang.classfile.attribute.CodeAttribute;
import java.lang.classfile.attribute.LineNumberInfo;
import java.lang.classfile.attribute.LocalVariableInfo;
import java.lang.classfile.attribute.LocalVariableTypeInfo;
import java.lang.classfile.attribute.StackMapFrameInfo;
import java.lang.classfile.attribute.StackMapFrameInfo.ObjectVerificationTypeInfo;
import java.lang.classfile.attribute.StackMapFrameInfo.UninitializedVerificationTypeInfo;
import java.lang.classfile.attribute.StackMapFrameInfo.VerificationTypeInfo;
import java.lang.classfile.attribute.UnknownAttribute;
import java.lang.classfile.instruction.BranchInstruction;
import java.lang.classfile.instruction.ConstantInstruction;
import java.lang.classfile.instruction.DiscontinuedInstruction;
import java.lang.classfile.instruction.ExceptionCatch;
import java.lang.classfile.instruction.InvokeDynamicInstruction;
import java.lang.classfile.instruction.InvokeInstruction;
import java.lang.classfile.instruction.LookupSwitchInstruction;
import java.lang.classfile.instruction.ReturnInstruction;
import java.lang.classfile.instruction.SwitchCase;
import java.lang.classfile.instruction.TableSwitchInstruction;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;

/**
 * Compares the code of a method with its rewritten form: the same instructions with the same
 * targets and the same tables, once the probes are taken out again, and the probes where they
 * belong.
 */
final class CompareCode {
    private static final String PROBE = "java/lang/invoke/$TProfiler";
    /** Set in the id of a constructor until its super(...) has returned. */
    private static final int BEFORE_INIT = 1 << 30;
    /** Classes whose constructors only return. */
    private static final List<String> TRIVIAL = List.of("java/lang/Object", "java/lang/Record", "java/lang/Enum");

    private static final List<String> OVERFLOW_TYPES = List.of("", "java/lang/StackOverflowError",
            "java/lang/VirtualMachineError", "java/lang/Error", "java/lang/Throwable");
    /** Where, behind the start of Caught, an error of its own leads to: a nop, and behind it the handler. */
    private static final int OVERFLOWED = 9;

    /** An instruction of the method, and where it stands in both forms. */
    private record Place(Instruction instruction, int old, int target, int now) {}

    /** What is wrong, thrown from wherever it is found. */
    private static final class Wrong extends RuntimeException {
        Wrong(String message) {
            super(message, null, false, false);
        }
    }

    private final MethodModel method;
    private final CodeAttribute before;
    private final CodeAttribute after;
    private final List<Place> places = new ArrayList<>();
    /** By old offset: the instruction there, or the number of instructions for the end. */
    private final int[] indexOfOld;
    /** By new offset: whether a probe of ours covers it. */
    private final BitSet inserted = new BitSet();
    /** Numbers of the old instructions in front of which Caught stands. */
    private final BitSet caught = new BitSet();
    /** Those of them that have a nop, for an overflow of Caught. */
    private final BitSet guarded = new BitSet();
    /** Numbers of the old instructions behind which Initialized stands. */
    private final BitSet initialized = new BitSet();
    private int id;
    /** It is a constructor with two ids. */
    private boolean hasIdOfBefore;
    /** Where our own handlers begin. */
    private int handlers;
    private int newLength;

    CompareCode(MethodModel method, CodeAttribute before, CodeAttribute after) {
        this.method = method;
        this.before = before;
        this.after = after;
        this.indexOfOld = new int[before.codeLength() + 1];
    }

    /** What differs, or null. */
    String run() {
        try {
            match();
            limits();
            targets();
            exceptions();
            caught();
            frames();
            debugTables();
            typeAnnotations();
            otherAttributes();
            return null;
        } catch (Wrong wrong) {
            return wrong.getMessage();
        }
    }

    private static void check(boolean is, String otherwise, Object... arguments) {
        if (!is) {
            throw new Wrong(String.format(otherwise, arguments));
        }
    }

    private record At(int bci, Instruction instruction) {}

    private static List<At> instructions(CodeAttribute code) {
        List<At> list = new ArrayList<>();
        int bci = 0;
        for (CodeElement element : code) {
            if (element instanceof Instruction instruction) {
                list.add(new At(bci, instruction));
                bci += instruction.sizeInBytes();
            }
        }
        check(bci == code.codeLength(), "decoded %d bytes of %d", bci, code.codeLength());
        return list;
    }

    /** Pairs old instructions with new ones, and finds the probes between them. */
    private void match() {
        List<At> old = instructions(before);
        List<At> now = instructions(after);
        newLength = after.codeLength();
        Arrays.fill(indexOfOld, -1);
        int n = 2;
        int start = probe(now, 0, "Start");
        id = start & ~BEFORE_INIT;
        hasIdOfBefore = start != id;
        for (At instruction : old) {
            boolean isReturn = instruction.instruction instanceof ReturnInstruction;
            int target = now.get(n).bci;
            if (isProbe(now, n, "Caught")) {
                probe(now, n, "Caught");
                caught.set(places.size());
                n += 2;
                if (catchesOverflow(instruction.bci)) {
                    guard(now, n);
                    n += 2;
                }
            }
            if (isReturn) {
                check(probe(now, n, "End") == id, "End with the id of before");
                n += 2;
            }
            At same = now.get(n++);
            check(instruction.instruction.opcode() == same.instruction.opcode(), "%s at %d became %s",
                    instruction.instruction.opcode(), instruction.bci, same.instruction.opcode());
            indexOfOld[instruction.bci] = places.size();
            if (isProbe(now, n, "Initialized")) {
                check(start != id && probe(now, n, "Initialized") == start, "Initialized with another id");
                check(constructed(instruction.instruction) != null, "Initialized behind no constructor");
                initialized.set(places.size());
                n += 2;
            }
            places.add(new Place(instruction.instruction, instruction.bci, target, same.bci));
        }
        indexOfOld[before.codeLength()] = places.size();
        handlers = n < now.size() ? now.get(n).bci : newLength;
        int ours = 0;
        for (; n < now.size(); n += 5, ours++) {
            int threw = threw(now, n);
            // The first one may be that of the part before super(...) too, if the body needs none.
            check(threw == start || ours == 0 && threw == id, "Threw with another id");
            check(isOpcode(now, n + 4, Opcode.ATHROW), "no athrow behind Threw");
        }
        check(ours <= 2, "%d handlers", ours);
    }

    private static boolean isOfOverflow(ExceptionCatch entry) {
        return OVERFLOW_TYPES.contains(type(entry));
    }

    private boolean catchesOverflow(int handler) {
        return before.exceptionHandlers().stream().anyMatch(e -> old(e.handler()) == handler && isOfOverflow(e));
    }

    /** Behind Caught: a goto past a nop, and that. */
    private void guard(List<At> code, int index) {
        check(isOpcode(code, index, Opcode.GOTO) && isOpcode(code, index + 1, Opcode.NOP), "no guard at %d", index);
        int behind = code.get(index + 2).bci;
        check(now(((BranchInstruction) code.get(index).instruction).target()) == behind, "a goto to elsewhere");
        inserted.set(code.get(index).bci, behind);
        guarded.set(places.size());
    }

    private static boolean isProbe(List<At> code, int index, String name) {
        return index + 1 < code.size()
                && code.get(index + 1).instruction instanceof InvokeInstruction invoke
                && invoke.opcode() == Opcode.INVOKESTATIC
                && invoke.owner().asInternalName().equals(PROBE)
                && invoke.name().equalsString(name);
    }

    /** The class of which an instruction calls a constructor, or null. */
    private static String constructed(Instruction instruction) {
        return instruction instanceof InvokeInstruction invoke && invoke.name().equalsString("<init>")
                ? invoke.owner().asInternalName()
                : null;
    }

    /** Checks a probe at an index; its method id. */
    private int probe(List<At> code, int index, String name) {
        check(isProbe(code, index, name), "no %s at instruction %d", name, index);
        int found = pushedId(code, index, name);
        int end = index + 2 < code.size() ? code.get(index + 2).bci : newLength;
        inserted.set(code.get(index).bci, end);
        return found;
    }

    /** Checks the probe of an exceptional exit, which gets the id and the exception; its method id. */
    private int threw(List<At> code, int index) {
        check(isOpcode(code, index, Opcode.DUP) && isOpcode(code, index + 2, Opcode.SWAP)
                && isProbe(code, index + 2, "Threw"), "no Threw at instruction %d", index);
        inserted.set(code.get(index).bci, code.get(index + 4).bci);
        return pushedId(code, index + 1, "Threw");
    }

    private int pushedId(List<At> code, int index, String name) {
        check(code.get(index).instruction instanceof ConstantInstruction constant
                && constant.constantValue() instanceof Integer, "no id in front of %s", name);
        int found = (Integer) ((ConstantInstruction) code.get(index).instruction).constantValue();
        check(found > 0 && (id == 0 || id == (found & ~BEFORE_INIT)), "id %d, then %d", id, found);
        return found;
    }

    private static boolean isOpcode(List<At> code, int index, Opcode opcode) {
        return index < code.size() && code.get(index).instruction.opcode() == opcode;
    }

    private void limits() {
        check(after.maxLocals() == before.maxLocals(), "max_locals");
        check(after.maxStack() == Math.max(before.maxStack(), 2) + 1,
                "max_stack %d, then %d", before.maxStack(), after.maxStack());
    }

    private int old(Label label) {
        return before.labelToBci(label);
    }

    private int now(Label label) {
        return after.labelToBci(label);
    }

    /** Where control that goes to an old offset has to arrive. */
    private int target(int old) {
        check(indexOfOld[old] >= 0, "%d is within an instruction", old);
        return indexOfOld[old] == places.size() ? handlers : places.get(indexOfOld[old]).target;
    }

    private void target(Label old, Label now, String what) {
        check(target(old(old)) == now(now), "%s to %d leads to %d", what, old(old), now(now));
    }

    /** Operands are the same bytes, and branches lead to the same instructions. */
    private void targets() {
        List<At> now = instructions(after);
        byte[] oldCode = before.codeArray();
        byte[] newCode = after.codeArray();
        int n = 0;
        for (Place place : places) {
            while (now.get(n).bci != place.now) {
                n++;
            }
            Instruction same = now.get(n).instruction;
            switch (place.instruction) {
                case BranchInstruction b -> target(b.target(), ((BranchInstruction) same).target(), "branch");
                case DiscontinuedInstruction.JsrInstruction j ->
                    target(j.target(), ((DiscontinuedInstruction.JsrInstruction) same).target(), "jsr");
                case TableSwitchInstruction s -> {
                    TableSwitchInstruction t = (TableSwitchInstruction) same;
                    check(s.lowValue() == t.lowValue() && s.highValue() == t.highValue(), "tableswitch");
                    target(s.defaultTarget(), t.defaultTarget(), "default");
                    cases(s.cases(), t.cases());
                }
                case LookupSwitchInstruction s -> {
                    LookupSwitchInstruction t = (LookupSwitchInstruction) same;
                    target(s.defaultTarget(), t.defaultTarget(), "default");
                    cases(s.cases(), t.cases());
                }
                default -> check(Arrays.equals(
                        oldCode, place.old, place.old + place.instruction.sizeInBytes(),
                        newCode, place.now, place.now + same.sizeInBytes()), "operands at %d", place.old);
            }
        }
    }

    private void cases(List<SwitchCase> old, List<SwitchCase> now) {
        check(old.size() == now.size(), "%d cases, then %d", old.size(), now.size());
        for (int i = 0; i < old.size(); i++) {
            check(old.get(i).caseValue() == now.get(i).caseValue(), "case");
            target(old.get(i).target(), now.get(i).target(), "case");
        }
    }

    /** The method's entries protect what they did, no probe among it; ours protect the rest. */
    private void exceptions() {
        List<ExceptionCatch> now = after.exceptionHandlers();
        int n = guards(now);
        for (ExceptionCatch entry : before.exceptionHandlers()) {
            BitSet expected = new BitSet();
            for (int i = indexOfOld[old(entry.tryStart())]; i < indexOfOld[old(entry.tryEnd())]; i++) {
                expected.set(i);
            }
            BitSet found = new BitSet();
            while (!found.equals(expected)) {
                check(n < now.size(), "an exception range is gone");
                ExceptionCatch piece = now.get(n++);
                target(entry.handler(), piece.handler(), "handler");
                check(type(entry).equals(type(piece)), "catch type");
                found.or(covered(piece, true));
                BitSet more = (BitSet) found.clone();
                more.andNot(expected);
                check(more.isEmpty(), "an exception range has grown");
            }
        }
        boolean isConstructor = method.methodName().equalsString("<init>");
        BitSet ours = new BitSet();
        for (; n < now.size(); n++) {
            check(now(now.get(n).handler()) >= handlers && type(now.get(n)).isEmpty(), "a foreign handler");
            ours.or(covered(now.get(n), false));
        }
        boolean returns = false;
        boolean callIsOpen = false;
        for (int i = 0; i < places.size(); i++) {
            Instruction instruction = places.get(i).instruction;
            String constructed = constructed(instruction);
            if (instruction instanceof ReturnInstruction) {
                returns = true;
                check(!ours.get(i), "a return is protected");
            } else if (isConstructor) {
                // super(...) is protected by nothing, and loads in front of it need not be.
                boolean isOpen = constructed != null && !ours.get(i);
                callIsOpen |= isOpen;
                check(!initialized.get(i) || isOpen, "Initialized behind a call that is protected");
                // Without `this` in its variable, nothing in front of super(...) can be protected.
                check(!isOpen || initialized.get(i) || TRIVIAL.contains(constructed) || hasIdOfBefore,
                        "a super(...) may throw, and nothing tells that it did not");
            } else {
                check(ours.get(i), "instruction at %d is not protected", places.get(i).old);
            }
        }
        // A constructor that returns has called super(...); Object's own has none to call.
        boolean hasSuper = method.parent().flatMap(c -> c.superclass()).isPresent();
        check(!(isConstructor && returns && hasSuper) || callIsOpen, "a constructor's super(...) is protected");
        check(hasIdOfBefore != initialized.isEmpty(), "Initialized is not where it should be");
    }

    /** The first entries lead from each Caught to what catches an overflow of it; their number. */
    private int guards(List<ExceptionCatch> now) {
        List<ExceptionCatch> of = before.exceptionHandlers().stream().filter(CompareCode::isOfOverflow).toList();
        Map<Integer, List<String>> expected = new HashMap<>();
        for (int i = caught.nextSetBit(0); i >= 0; i = caught.nextSetBit(i + 1)) {
            int handler = places.get(i).old;
            List<ExceptionCatch> catches = new ArrayList<>(of.stream().filter(e -> old(e.handler()) == handler).toList());
            // Where there are monitors, ranges around a handler have its Caught; what comes before may lead back here.
            if (!Monitors.areUsed(before)) {
                of.stream().filter(e -> old(e.tryStart()) <= handler && handler < old(e.tryEnd()))
                        .filter(e -> old(e.handler()) != handler)
                        .takeWhile(e -> old(e.handler()) > handler).forEach(catches::add);
            }
            Set<Integer> types = new HashSet<>();
            for (ExceptionCatch entry : catches) {
                if (!types.contains(0) && types.add(index(entry))) {
                    int to = indexOfOld[old(entry.handler())];
                    int goesOn = places.get(to).target + (guarded.get(to) ? OVERFLOWED : 0);
                    expected.computeIfAbsent(places.get(i).target, t -> new ArrayList<>()).add(goesOn + ":" + index(entry));
                }
            }
        }
        int count = expected.values().stream().mapToInt(List::size).sum();
        check(count <= now.size(), "guards are gone");
        Map<Integer, List<String>> found = new HashMap<>();
        for (ExceptionCatch entry : now.subList(0, count)) {
            int start = now(entry.tryStart());
            check(now(entry.tryEnd()) == start + 6, "a guard of more than Caught");
            found.computeIfAbsent(start, t -> new ArrayList<>()).add(now(entry.handler()) + ":" + index(entry));
        }
        check(found.equals(expected), "guards of %s, not %s", found, expected);
        return count;
    }

    /** The constant of the type that an entry catches, or 0. */
    private static int index(ExceptionCatch entry) {
        return entry.catchType().map(c -> c.index()).orElse(0);
    }

    /**
     * Caught stands in front of every handler whose range calls something, and of nothing but handlers.
     * A method with monitors may lack some, so that its monitors are in order as before.
     */
    private void caught() {
        BitSet handlers = new BitSet();
        BitSet wanted = new BitSet();
        for (ExceptionCatch entry : before.exceptionHandlers()) {
            int handler = indexOfOld[old(entry.handler())];
            handlers.set(handler);
            for (int i = indexOfOld[old(entry.tryStart())]; i < indexOfOld[old(entry.tryEnd())]; i++) {
                Instruction instruction = places.get(i).instruction;
                if (instruction instanceof InvokeInstruction || instruction instanceof InvokeDynamicInstruction) {
                    wanted.set(handler);
                }
            }
        }
        BitSet more = (BitSet) caught.clone();
        more.andNot(handlers);
        check(more.isEmpty(), "Caught in front of what is no handler");
        if (Monitors.areUsed(before)) {
            check(!Monitors.areInOrder(before) || Monitors.areInOrder(after), "monitors are out of order");
        } else {
            wanted.andNot(caught);
            check(wanted.isEmpty(), "a handler without Caught");
        }
    }

    private static String type(ExceptionCatch entry) {
        return entry.catchType().map(c -> c.asInternalName()).orElse("");
    }

    /** Numbers of the old instructions that a new range covers. */
    private BitSet covered(ExceptionCatch entry, boolean withoutProbes) {
        int start = now(entry.tryStart());
        int end = now(entry.tryEnd());
        check(start < end, "an empty range");
        BitSet found = new BitSet();
        BitSet bytes = new BitSet();
        bytes.set(start, end);
        for (int i = 0; i < places.size(); i++) {
            if (bytes.get(places.get(i).now)) {
                found.set(i);
            }
        }
        if (withoutProbes) {
            // A Caught may belong to the range of its handler: see Monitors.
            for (int i = caught.nextSetBit(0); i >= 0; i = caught.nextSetBit(i + 1)) {
                Place place = places.get(i);
                boolean isCovered = bytes.get(place.target);
                check(!isCovered || bytes.get(place.now) && Monitors.areUsed(before), "a range covers a Caught");
                if (isCovered) {
                    bytes.clear(place.target, place.target + (guarded.get(i) ? OVERFLOWED + 1 : 6));
                }
            }
            bytes.and(inserted);
            check(bytes.isEmpty(), "a range covers a probe");
        } else {
            check(end <= handlers, "a handler protects itself");
        }
        return found;
    }

    private void frames() {
        List<StackMapFrameInfo> old = frames(before);
        List<StackMapFrameInfo> now = frames(after);
        boolean wantsFrames = after.findAttribute(Attributes.stackMapTable()).isPresent();
        int n = 0;
        int ours = (newLength - handlers) / 7;
        for (StackMapFrameInfo a : old) {
            frame(a, now, n, target(old(a.target())));
            n++;
            int place = indexOfOld[old(a.target())];
            if (place < places.size() && guarded.get(place)) {
                for (int behind = 0; behind < 2; behind++, n++, ours++) {
                    frame(a, now, n, places.get(place).target + OVERFLOWED + behind);
                }
            }
        }
        check(!wantsFrames || now.size() == old.size() + ours, "%d frames, then %d", old.size(), now.size());
    }

    private void frame(StackMapFrameInfo old, List<StackMapFrameInfo> now, int index, int target) {
        check(index < now.size(), "a frame is gone");
        StackMapFrameInfo same = now.get(index);
        check(now(same.target()) == target, "frame of %d is at %d", old(old.target()), now(same.target()));
        types(old.locals(), same.locals());
        types(old.stack(), same.stack());
    }

    private static List<StackMapFrameInfo> frames(CodeAttribute code) {
        return code.findAttribute(Attributes.stackMapTable()).map(t -> t.entries()).orElse(List.of());
    }

    private void types(List<VerificationTypeInfo> old, List<VerificationTypeInfo> now) {
        check(old.size() == now.size(), "types of a frame");
        for (int i = 0; i < old.size(); i++) {
            VerificationTypeInfo a = old.get(i);
            VerificationTypeInfo b = now.get(i);
            check(a.tag() == b.tag(), "type of a frame");
            if (a instanceof ObjectVerificationTypeInfo x) {
                check(x.className().equals(((ObjectVerificationTypeInfo) b).className()), "class in a frame");
            } else if (a instanceof UninitializedVerificationTypeInfo x) {
                Label place = ((UninitializedVerificationTypeInfo) b).newTarget();
                check(instruction(old(x.newTarget())) == now(place), "new in a frame");
            }
        }
    }

    private int instruction(int old) {
        check(old < indexOfOld.length && indexOfOld[old] >= 0 && indexOfOld[old] < places.size(), "%d is no instruction", old);
        return places.get(indexOfOld[old]).now;
    }

    /** Debug tables may point into instructions; the start of the code includes the entry probe. */
    private int debug(int old) {
        if (old == 0) {
            return 0;
        }
        int start = old;
        while (indexOfOld[start] < 0) {
            start--;
        }
        return start == old ? target(old) : instruction(start) + (old - start);
    }

    private void debugTables() {
        List<LineNumberInfo> oldLines = new ArrayList<>();
        List<LineNumberInfo> newLines = new ArrayList<>();
        before.findAttributes(Attributes.lineNumberTable()).forEach(t -> oldLines.addAll(t.lineNumbers()));
        after.findAttributes(Attributes.lineNumberTable()).forEach(t -> newLines.addAll(t.lineNumbers()));
        check(oldLines.size() == newLines.size(), "line numbers");
        for (int i = 0; i < oldLines.size(); i++) {
            check(oldLines.get(i).lineNumber() == newLines.get(i).lineNumber()
                    && debug(oldLines.get(i).startPc()) == newLines.get(i).startPc(), "line number");
        }
        List<LocalVariableInfo> oldLocals = new ArrayList<>();
        List<LocalVariableInfo> newLocals = new ArrayList<>();
        before.findAttributes(Attributes.localVariableTable()).forEach(t -> oldLocals.addAll(t.localVariables()));
        after.findAttributes(Attributes.localVariableTable()).forEach(t -> newLocals.addAll(t.localVariables()));
        check(oldLocals.size() == newLocals.size(), "local variables");
        for (int i = 0; i < oldLocals.size(); i++) {
            LocalVariableInfo a = oldLocals.get(i);
            LocalVariableInfo b = newLocals.get(i);
            check(a.slot() == b.slot() && a.name().equals(b.name()) && a.type().equals(b.type()), "local variable");
            range(a.startPc(), a.length(), b.startPc(), b.length());
        }
        List<LocalVariableTypeInfo> oldTypes = new ArrayList<>();
        List<LocalVariableTypeInfo> newTypes = new ArrayList<>();
        before.findAttributes(Attributes.localVariableTypeTable()).forEach(t -> oldTypes.addAll(t.localVariableTypes()));
        after.findAttributes(Attributes.localVariableTypeTable()).forEach(t -> newTypes.addAll(t.localVariableTypes()));
        check(oldTypes.size() == newTypes.size(), "local variable types");
        for (int i = 0; i < oldTypes.size(); i++) {
            LocalVariableTypeInfo a = oldTypes.get(i);
            LocalVariableTypeInfo b = newTypes.get(i);
            check(a.slot() == b.slot() && a.signature().equals(b.signature()), "local variable type");
            range(a.startPc(), a.length(), b.startPc(), b.length());
        }
    }

    private void range(int oldStart, int oldLength, int newStart, int newLength) {
        check(debug(oldStart) == newStart, "start of a variable");
        int end = oldLength == 0 ? newStart : debug(oldStart + oldLength);
        check(end == newStart + newLength, "end of a variable");
    }

    private void typeAnnotations() {
        annotations(before.findAttribute(Attributes.runtimeVisibleTypeAnnotations()).map(a -> a.annotations()),
                after.findAttribute(Attributes.runtimeVisibleTypeAnnotations()).map(a -> a.annotations()));
        annotations(before.findAttribute(Attributes.runtimeInvisibleTypeAnnotations()).map(a -> a.annotations()),
                after.findAttribute(Attributes.runtimeInvisibleTypeAnnotations()).map(a -> a.annotations()));
    }

    private void annotations(Optional<List<TypeAnnotation>> maybeOld, Optional<List<TypeAnnotation>> maybeNow) {
        List<TypeAnnotation> old = maybeOld.orElse(List.of());
        List<TypeAnnotation> now = maybeNow.orElse(List.of());
        check(old.size() == now.size(), "type annotations");
        for (int i = 0; i < old.size(); i++) {
            TypeAnnotation.TargetInfo a = old.get(i).targetInfo();
            TypeAnnotation.TargetInfo b = now.get(i).targetInfo();
            check(a.targetType() == b.targetType()
                    && old.get(i).targetPath().equals(now.get(i).targetPath())
                    && old.get(i).annotation().equals(now.get(i).annotation()), "type annotation");
            switch (a) {
                case TypeAnnotation.LocalVarTarget x -> {
                    TypeAnnotation.LocalVarTarget y = (TypeAnnotation.LocalVarTarget) b;
                    check(x.table().size() == y.table().size(), "annotated variables");
                    for (int v = 0; v < x.table().size(); v++) {
                        TypeAnnotation.LocalVarTargetInfo p = x.table().get(v);
                        TypeAnnotation.LocalVarTargetInfo q = y.table().get(v);
                        check(p.index() == q.index(), "annotated variable");
                        range(old(p.startLabel()), old(p.endLabel()) - old(p.startLabel()),
                                now(q.startLabel()), now(q.endLabel()) - now(q.startLabel()));
                    }
                }
                case TypeAnnotation.OffsetTarget x ->
                    check(instruction(old(x.target())) == now(((TypeAnnotation.OffsetTarget) b).target()), "annotated instruction");
                case TypeAnnotation.TypeArgumentTarget x -> {
                    TypeAnnotation.TypeArgumentTarget y = (TypeAnnotation.TypeArgumentTarget) b;
                    check(x.typeArgumentIndex() == y.typeArgumentIndex()
                            && instruction(old(x.target())) == now(y.target()), "annotated type argument");
                }
                case TypeAnnotation.CatchTarget x -> {
                    ExceptionCatch p = before.exceptionHandlers().get(x.exceptionTableIndex());
                    int index = ((TypeAnnotation.CatchTarget) b).exceptionTableIndex();
                    ExceptionCatch q = after.exceptionHandlers().get(index);
                    target(p.handler(), q.handler(), "annotated handler");
                    check(type(p).equals(type(q)) && covered(q, true).get(indexOfOld[old(p.tryStart())]), "annotated catch");
                }
                default -> check(Objects.equals(a.toString(), b.toString()) || a.getClass() == b.getClass(), "annotation target");
            }
        }
    }

    /** The same attributes in the same order; what nobody knows has the same bytes. */
    private void otherAttributes() {
        List<Attribute<?>> old = before.attributes();
        List<Attribute<?>> now = new ArrayList<>(after.attributes());
        if (now.size() == old.size() + 1) {
            check(now.removeLast().attributeName().equalsString("StackMapTable"), "a new attribute");
        }
        check(old.size() == now.size(), "%d attributes, then %d", old.size(), now.size());
        for (int i = 0; i < old.size(); i++) {
            check(old.get(i).attributeName().equals(now.get(i).attributeName()), "attribute's name");
            if (old.get(i) instanceof UnknownAttribute a) {
                check(Arrays.equals(a.contents(), ((UnknownAttribute) now.get(i)).contents()), "unknown attribute");
            }
        }
    }
}
