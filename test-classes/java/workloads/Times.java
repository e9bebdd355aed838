package workloads;

import java.util.Arrays;

/** How long each part of a run took, which goes on for some seconds. Of very many parts the last ones are kept. */
final class Times {
    /** Parts there are at least, however long they take. */
    private static final int LEAST = 25;

    private final long end;
    private final long[] times = new long[1 << 17];
    private long count;

    Times(double seconds) {
        end = System.nanoTime() + (long) (seconds * 1e9);
    }

    /** Whether there is to be another part. */
    boolean goOn() {
        return count < LEAST || System.nanoTime() < end;
    }

    void add(long ns) {
        times[(int) (count++ % times.length)] = ns;
    }

    /** Parts in all. */
    long count() {
        return count;
    }

    /** Those that are kept. */
    int kept() {
        return (int) Math.min(count, times.length);
    }

    /** The last of those that are kept, in no order. */
    long[] last(int number) {
        long[] last = new long[number];
        for (int i = 0; i < number; i++) {
            last[i] = times[(int) ((count - 1 - i) % times.length)];
        }
        return last;
    }

    /** As many parts of each run, that one which was quicker counts no more than others. */
    static long[] together(Times[] runs) {
        int each = Arrays.stream(runs).mapToInt(Times::kept).min().getAsInt();
        return Arrays.stream(runs).flatMapToLong(run -> Arrays.stream(run.last(each))).toArray();
    }
}
