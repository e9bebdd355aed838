package workloads;

/** An exception, made beforehand, through five frames: nanoseconds for all of it. */
public final class Throw {
    private static final int CALLS = 5_000;
    private static final int BATCHES = 1_000;
    private static final int WARM_UPS = 400;
    private static final RuntimeException EXCEPTION = new RuntimeException("made beforehand");

    private Throw() {}

    static int first(int x) {
        return second(x + 1) + 1;
    }

    static int second(int x) {
        return third(x + 1) + 1;
    }

    static int third(int x) {
        return fourth(x + 1) + 1;
    }

    static int fourth(int x) {
        return fifth(x + 1) + 1;
    }

    static int fifth(int x) {
        if (x > 0) {
            throw EXCEPTION;
        }
        return x;
    }

    public static void main(String[] args) throws Exception {
        int caught = run(new long[WARM_UPS]);
        Figures.ready();
        long[] times = new long[BATCHES];
        caught += run(times);
        Figures.printMedian("ns_per_exception", times, CALLS);
        for (String method : new String[] {"first", "second", "third", "fourth", "fifth"}) {
            Figures.truth("workloads.Throw." + method, caught, caught, 0);
        }
    }

    private static int run(long[] times) {
        int caught = 0;
        for (int batch = 0; batch < times.length; batch++) {
            long begin = System.nanoTime();
            for (int i = 0; i < CALLS; i++) {
                try {
                    first(i);
                } catch (RuntimeException e) {
                    caught++;
                }
            }
            times[batch] = System.nanoTime() - begin;
        }
        return caught;
    }
}
