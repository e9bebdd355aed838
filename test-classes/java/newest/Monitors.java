package newest;

import java.lang.classfile.CodeElement;
import java.lang.classfile.Instruction;
import java.lang.classfile.Label;
import java.lang.classfile.Opcode;
import java.lang.classfile.attribute.CodeAttribute;
import java.lang.classfile.instruction.BranchInstruction;
import java.lang.classfile.instruction.DiscontinuedInstruction;
import java.lang.classfile.instruction.ExceptionCatch;
import java.lang.classfile.instruction.LookupSwitchInstruction;
import java.lang.classfile.instruction.MonitorInstruction;
import java.lang.classfile.instruction.ReturnInstruction;
import java.lang.classfile.instruction.SwitchCase;
import java.lang.classfile.instruction.TableSwitchInstruction;
import java.lang.classfile.instruction.ThrowInstruction;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Whether a method's monitors are in order as HotSpot wants it of a method that it compiles: at each
 * instruction the same number is held on all paths, those of exceptions included, and none is held
 * where an exception leaves the method.
 */
final class Monitors {
    private final CodeAttribute code;
    private final List<Instruction> instructions = new ArrayList<>();
    private final List<Integer> offsets = new ArrayList<>();
    private final Map<Integer, Integer> index = new HashMap<>();
    private final Deque<int[]> waiting = new ArrayDeque<>();
    private boolean hasMonitors;
    private boolean hasSubroutines;

    private Monitors(CodeAttribute code) {
        this.code = code;
        int bci = 0;
        for (CodeElement element : code) {
            if (element instanceof Instruction instruction) {
                index.put(bci, instructions.size());
                instructions.add(instruction);
                offsets.add(bci);
                bci += instruction.sizeInBytes();
                hasMonitors |= instruction instanceof MonitorInstruction;
                hasSubroutines |= instruction instanceof DiscontinuedInstruction.JsrInstruction;
            }
        }
    }

    static boolean areUsed(CodeAttribute code) {
        return new Monitors(code).hasMonitors;
    }

    /** Also if there are none, or if subroutines make it too hard to tell. */
    static boolean areInOrder(CodeAttribute code) {
        Monitors monitors = new Monitors(code);
        return !monitors.hasMonitors || monitors.hasSubroutines || monitors.run();
    }

    private boolean run() {
        int[] known = new int[instructions.size()];
        waiting.add(new int[] {0, 0});
        while (!waiting.isEmpty()) {
            int[] next = waiting.remove();
            int held = next[1];
            for (int i = next[0]; i < instructions.size(); i++) {
                if (known[i] != 0) {
                    if (known[i] != held + 1) {
                        return false;
                    }
                    break;
                }
                known[i] = held + 1;
                Instruction instruction = instructions.get(i);
                if (canThrow(instruction) && !enterHandlers(offsets.get(i), held) && held > 0) {
                    return false;
                }
                if (instruction instanceof MonitorInstruction) {
                    held += instruction.opcode() == Opcode.MONITORENTER ? 1 : -1;
                    if (held < 0) {
                        return false;
                    }
                }
                if (branches(instruction, held)) {
                    break;
                }
            }
        }
        return true;
    }

    /** Whether one of them catches everything. */
    private boolean enterHandlers(int bci, int held) {
        for (ExceptionCatch entry : code.exceptionHandlers()) {
            if (code.labelToBci(entry.tryStart()) <= bci && bci < code.labelToBci(entry.tryEnd())) {
                go(entry.handler(), held);
                if (entry.catchType().isEmpty()) {
                    return true;
                }
            }
        }
        return false;
    }

    private void go(Label label, int held) {
        waiting.add(new int[] {index.get(code.labelToBci(label)), held});
    }

    /** Goes to where it leads; whether that is nowhere but there. */
    private boolean branches(Instruction instruction, int held) {
        switch (instruction) {
            case BranchInstruction branch -> {
                go(branch.target(), held);
                return branch.opcode() == Opcode.GOTO || branch.opcode() == Opcode.GOTO_W;
            }
            case TableSwitchInstruction table -> {
                go(table.defaultTarget(), held);
                for (SwitchCase one : table.cases()) {
                    go(one.target(), held);
                }
                return true;
            }
            case LookupSwitchInstruction lookup -> {
                go(lookup.defaultTarget(), held);
                for (SwitchCase one : lookup.cases()) {
                    go(one.target(), held);
                }
                return true;
            }
            case ReturnInstruction r -> {
                return true;
            }
            case ThrowInstruction t -> {
                return true;
            }
            default -> {
                return false;
            }
        }
    }

    /** What HotSpot takes to throw nothing where monitors are in order cannot. */
    private static boolean canThrow(Instruction instruction) {
        return switch (instruction.opcode().kind()) {
            case LOAD, STORE, INCREMENT, STACK, CONVERT, BRANCH, TABLE_SWITCH, LOOKUP_SWITCH, RETURN, NOP -> false;
            case CONSTANT -> switch (instruction.opcode()) {
                case LDC, LDC_W, LDC2_W -> true;
                default -> false;
            };
            case OPERATOR -> switch (instruction.opcode()) {
                case IDIV, IREM, LDIV, LREM, ARRAYLENGTH -> true;
                default -> false;
            };
            case MONITOR -> instruction.opcode() == Opcode.MONITORENTER;
            default -> true;
        };
    }
}
