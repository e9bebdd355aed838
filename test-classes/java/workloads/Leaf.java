package workloads;

import java.util.concurrent.CountDownLatch;

/**
 * Calls of a method that takes one or two nanoseconds, in a loop that is compiled: nanoseconds a call.
 *
 * <p>Usage: {@code Leaf THREADS [FLOOR]}, where the library {@code FLOOR} has the least that exact timing in
 * native code takes: an empty native method with a reading of the clock, before and after.
 */
public final class Leaf {
    private static final int CALLS = 20_000;
    private static final int BATCHES = 625;
    private static final int WARM_UPS = 250;

    private Leaf() {}

    static int leaf(int x) {
        x ^= x << 13;
        x ^= x >>> 17;
        return x ^ x << 5;
    }

    static native void enter(int method);

    static native void leave(int method);

    private static int loop(int x) {
        for (int i = 0; i < CALLS; i++) {
            x = leaf(x);
        }
        return x;
    }

    private static int floorLoop(int x) {
        for (int i = 0; i < CALLS; i++) {
            enter(7);
            x = leaf(x);
            leave(7);
        }
        return x;
    }

    public static void main(String[] args) throws Exception {
        int threads = Integer.parseInt(args[0]);
        boolean isFloor = args.length > 1;
        if (isFloor) {
            System.load(args[1]);
        }
        run(1, WARM_UPS, isFloor);
        Figures.ready();
        long[] times = run(threads, BATCHES, isFloor);
        Figures.printMedian("ns_per_call", times, CALLS);
        Figures.truth("workloads.Leaf.leaf", (WARM_UPS + (long) threads * BATCHES) * CALLS, 0, 0);
    }

    /** The times of all batches of all threads. */
    private static long[] run(int threads, int batches, boolean isFloor) throws InterruptedException {
        long[] times = new long[threads * batches];
        CountDownLatch started = new CountDownLatch(threads);
        Thread[] all = new Thread[threads];
        for (int t = 0; t < threads; t++) {
            int thread = t;
            all[t] = new Thread(() -> {
                started.countDown();
                try {
                    started.await();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
                int x = 1 + thread;
                for (int batch = 0; batch < batches; batch++) {
                    long begin = System.nanoTime();
                    x = isFloor ? floorLoop(x) : loop(x);
                    times[thread * batches + batch] = System.nanoTime() - begin;
                }
                if (x == 0) {
                    throw new IllegalStateException("never");
                }
            });
            all[t].start();
        }
        for (Thread thread : all) {
            thread.join();
        }
        return times;
    }
}
