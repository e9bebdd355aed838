package programs;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;

/**
 * A tree of methods that spin or sleep for known times. Every call is measured twice: by the method
 * itself, from its first statement to its last, and by its caller, around the call. What a profiler
 * says must lie between the two, wherever the thread may have lost the processor. At the end a line
 * per method is printed: name, total from inside and outside, self from inside and outside, in
 * nanoseconds.
 */
public final class Times {
    private static final int INSIDE = 0;
    private static final int OUTSIDE = 1;
    private static final int SELF_INSIDE = 2;
    private static final int SELF_OUTSIDE = 3;
    private static final Map<String, long[]> MEASURED = new TreeMap<>();

    static {
        // The measuring itself must not take time that nobody measures, not even the first time.
        for (String name : new String[] {"root", "branch", "leaf", "sleeper", "thrower", "recursive"}) {
            MEASURED.put(name, new long[4]);
        }
        try {
            throw new IllegalStateException();
        } catch (IllegalStateException e) {
            MEASURED.get("root")[INSIDE] = 0;
        }
    }

    private Times() {}

    public static void main(String[] args) {
        long start = System.nanoTime();
        int rounds = Integer.parseInt(args[0]);
        for (int i = 0; i < rounds; i++) {
            long call = System.nanoTime();
            root();
            returned("root", call);
        }
        System.out.println("wall " + (System.nanoTime() - start) + " 0 0 0");
        for (Map.Entry<String, long[]> entry : MEASURED.entrySet()) {
            StringBuilder line = new StringBuilder(entry.getKey());
            for (long time : entry.getValue()) {
                line.append(' ').append(time);
            }
            System.out.println(line);
        }
    }

    private static void root() {
        Meter meter = new Meter();
        spin(2_000_000);
        long call = System.nanoTime();
        branch();
        returned("branch", call);
        call = System.nanoTime();
        leaf(1_000_000);
        returned("leaf", call);
        call = System.nanoTime();
        sleeper();
        returned("sleeper", call);
        call = System.nanoTime();
        recursive(4);
        returned("recursive", call);
        meter.leave("root", true);
    }

    private static void branch() {
        Meter meter = new Meter();
        long call = System.nanoTime();
        leaf(3_000_000);
        returned("leaf", call);
        spin(1_500_000);
        call = System.nanoTime();
        try {
            thrower();
        } catch (IllegalStateException e) {
            returned("thrower", call);
            spin(500_000);
        }
        meter.leave("branch", true);
    }

    private static void leaf(long ns) {
        Meter meter = new Meter();
        spin(ns);
        meter.leave("leaf", true);
    }

    private static void sleeper() {
        Meter meter = new Meter();
        LockSupport.parkNanos(5_000_000);
        meter.leave("sleeper", true);
    }

    private static void thrower() {
        Meter meter = new Meter();
        IllegalStateException failure = new IllegalStateException();
        spin(2_500_000);
        meter.leave("thrower", true);
        throw failure;
    }

    /** Only the outermost call's total counts. */
    private static void recursive(int depth) {
        Meter meter = new Meter();
        spin(700_000);
        if (depth > 1) {
            long call = System.nanoTime();
            recursive(depth - 1);
            returnedFromRecursion(call);
        }
        meter.leave("recursive", depth == 4);
    }

    /** Time in callees of the call that runs, measured by them and around them. */
    private static long calleesInside;
    private static long calleesOutside;
    /** Of the call that ended last. */
    private static long lastInside;
    private static long lastCalleesInside;

    /** Measures a call from inside. */
    private static final class Meter {
        private final long calleesInsideBefore = calleesInside;
        private final long calleesOutsideBefore = calleesOutside;
        private final long start;

        Meter() {
            calleesInside = 0;
            calleesOutside = 0;
            start = System.nanoTime();
        }

        void leave(String name, boolean isOutermost) {
            long total = System.nanoTime() - start;
            long[] times = MEASURED.get(name);
            times[INSIDE] += isOutermost ? total : 0;
            times[SELF_INSIDE] += total - calleesOutside;
            lastInside = total;
            lastCalleesInside = calleesInside;
            calleesInside = calleesInsideBefore;
            calleesOutside = calleesOutsideBefore;
        }
    }

    /** Measures a call that began at {@code call} from outside. */
    private static void returned(String name, long call) {
        MEASURED.get(name)[OUTSIDE] += System.nanoTime() - call;
        returned(MEASURED.get(name), call);
    }

    private static void returnedFromRecursion(long call) {
        returned(MEASURED.get("recursive"), call);
    }

    private static void returned(long[] times, long call) {
        long total = System.nanoTime() - call;
        times[SELF_OUTSIDE] += total - lastCalleesInside;
        calleesInside += lastInside;
        calleesOutside += total;
    }

    private static void spin(long ns) {
        long end = System.nanoTime() + ns;
        while (System.nanoTime() < end) {
            Thread.onSpinWait();
        }
    }
}
