package workloads;

import java.util.Arrays;

/** How long each part of a run took, which goes on for some seconds. */
final class Times {
    /** Parts there are at least, however long they take. */
    private static final int LEAST = 25;

    private final long end;
    private long[] times = new long[1024];
    private int count;

    Times(double seconds) {
        end = System.nanoTime() + (long) (seconds * 1e9);
    }

    /** Whether there is to be another part. */
    boolean goOn() {
        return count < LEAST || System.nanoTime() < end;
    }

    void add(long ns) {
        if (count == times.length) {
            times = Arrays.copyOf(times, 2 * count);
        }
        times[count++] = ns;
    }

    void addAll(Times others) {
        for (long ns : others.all()) {
            add(ns);
        }
    }

    int count() {
        return count;
    }

    long[] all() {
        return Arrays.copyOf(times, count);
    }
}
