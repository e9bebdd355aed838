package programs;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;

/**
 * A tree of methods that spin or sleep for known times. Each measures its own total and self time;
 * at the end they are printed, a line per method: name, total and self in nanoseconds.
 */
public final class Times {
    private static final Map<String, long[]> MEASURED = new TreeMap<>();

    static {
        // The measuring itself must not take time that nobody measures, not even the first time.
        for (String name : new String[] {"root", "branch", "leaf", "sleeper", "thrower", "recursive"}) {
            MEASURED.put(name, new long[2]);
        }
        try {
            throw new IllegalStateException();
        } catch (IllegalStateException e) {
            MEASURED.get("root")[0] = 0;
        }
    }

    private Times() {}

    public static void main(String[] args) {
        long start = System.nanoTime();
        int rounds = Integer.parseInt(args[0]);
        for (int i = 0; i < rounds; i++) {
            root();
        }
        System.out.println("wall " + (System.nanoTime() - start) + " 0");
        for (Map.Entry<String, long[]> entry : MEASURED.entrySet()) {
            System.out.println(entry.getKey() + ' ' + entry.getValue()[0] + ' ' + entry.getValue()[1]);
        }
    }

    /** Time measured in callees of the method that runs. */
    private static long callees;

    private static void root() {
        long start = System.nanoTime();
        long before = callees;
        callees = 0;
        spin(2_000_000);
        branch();
        leaf(1_000_000);
        sleeper();
        recursive(4);
        measured("root", start, before);
    }

    private static void branch() {
        long start = System.nanoTime();
        long before = callees;
        callees = 0;
        leaf(3_000_000);
        spin(1_500_000);
        try {
            thrower();
        } catch (IllegalStateException e) {
            spin(500_000);
        }
        measured("branch", start, before);
    }

    private static void leaf(long ns) {
        long start = System.nanoTime();
        long before = callees;
        callees = 0;
        spin(ns);
        measured("leaf", start, before);
    }

    private static void sleeper() {
        long start = System.nanoTime();
        long before = callees;
        callees = 0;
        LockSupport.parkNanos(5_000_000);
        measured("sleeper", start, before);
    }

    private static void thrower() {
        long start = System.nanoTime();
        long before = callees;
        callees = 0;
        IllegalStateException failure = new IllegalStateException();
        spin(2_500_000);
        measured("thrower", start, before);
        throw failure;
    }

    /** Only the outermost call's total counts. */
    private static void recursive(int depth) {
        long start = System.nanoTime();
        long before = callees;
        callees = 0;
        spin(700_000);
        if (depth > 1) {
            recursive(depth - 1);
        }
        measured(depth == 4 ? "recursive" : "recursive-inner", start, before);
    }

    private static void measured(String name, long start, long before) {
        long total = System.nanoTime() - start;
        long self = total - callees;
        callees = before + total;
        if (name.equals("recursive-inner")) {
            MEASURED.get("recursive")[1] += self;
            return;
        }
        long[] times = MEASURED.get(name);
        times[0] += total;
        times[1] += self;
    }

    private static void spin(long ns) {
        long end = System.nanoTime() + ns;
        while (System.nanoTime() < end) {
            Thread.onSpinWait();
        }
    }
}
