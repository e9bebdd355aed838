package workloads;

import java.util.Arrays;
import java.util.concurrent.CountDownLatch;

/**
 * Calls of a method that takes one or two nanoseconds, in a loop that is compiled: nanoseconds a call.
 *
 * <p>Usage: {@code Leaf THREADS SECONDS [FLOOR]}, where the library {@code FLOOR} has the least that exact timing in
 * native code takes: an empty native method with a reading of the clock, before and after.
 */
public final class Leaf {
    private static final int CALLS = 20_000;

    private Leaf() {}

    static int leaf(int x) {
        x ^= x << 13;
        x ^= x >>> 17;
        return x ^ x << 5;
    }

    /** Loads the library of the floor, whose methods are of this class. */
    static void load(String library) {
        System.load(library);
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
        double seconds = Double.parseDouble(args[1]);
        boolean isFloor = args.length > 2;
        if (isFloor) {
            load(args[2]);
        }
        Times first = run(1, seconds / 2, isFloor)[0];
        Figures.ready();
        Times second = run(1, seconds / 2, isFloor)[0];
        Times[] measured = run(threads, seconds, isFloor);
        Figures.printMedian("ns_per_call", Times.together(measured), CALLS);
        long batches = first.count() + second.count() + Arrays.stream(measured).mapToLong(Times::count).sum();
        Figures.truth("workloads.Leaf.leaf", batches * CALLS, 0, 0);
    }

    /** The times of all batches, by thread. */
    private static Times[] run(int threads, double seconds, boolean isFloor) throws InterruptedException {
        Times[] times = new Times[threads];
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
                times[thread] = batches(1 + thread, new Times(seconds), isFloor);
            });
            all[t].start();
        }
        for (Thread thread : all) {
            thread.join();
        }
        return times;
    }

    private static Times batches(int x, Times times, boolean isFloor) {
        while (times.goOn()) {
            long begin = System.nanoTime();
            x = isFloor ? floorLoop(x) : loop(x);
            times.add(System.nanoTime() - begin);
        }
        if (x == 0) {
            throw new IllegalStateException("never");
        }
        return times;
    }
}
