package programs;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Requests at a rate, each of ten calls inside one another that all take over a millisecond: most of
 * them little more, some up to 20 ms. Once a second comes a request that takes 200 ms; it prints when that
 * ended, in milliseconds, and when each of the last rate's other requests did. At the end it prints how many requests
 * of each kind there were.
 *
 * <p>Usage: {@code Load THREADS REQUESTS_PER_SECOND SECONDS [REQUESTS_PER_SECOND SECONDS...]}
 */
public final class Load {
    private static final AtomicLong REQUESTS = new AtomicLong();
    private static final AtomicLong SLOW = new AtomicLong();
    private static final long SECOND = 1_000_000_000;

    private Load() {}

    public static void main(String[] args) throws InterruptedException {
        int threads = Integer.parseInt(args[0]);
        for (int i = 1; i < args.length; i += 2) {
            boolean isLast = i + 2 >= args.length;
            long interval = SECOND * threads / Long.parseLong(args[i]);
            long end = System.nanoTime() + Long.parseLong(args[i + 1]) * SECOND;
            List<Thread> running = new ArrayList<>();
            for (int number = 0; number < threads; number++) {
                boolean isFirst = number == 0;
                long seed = number;
                running.add(new Thread(() -> serve(interval, end, isFirst, isLast, seed), "exec-" + number));
                running.get(number).start();
            }
            for (Thread thread : running) {
                thread.join();
            }
        }
        System.out.println("requests " + REQUESTS.get());
        System.out.println("slow " + SLOW.get());
    }

    private static void serve(long interval, long end, boolean isFirst, boolean isLast, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        long next = System.nanoTime() + random.nextLong(interval);
        long nextSlow = isFirst ? System.nanoTime() + SECOND / 2 : Long.MAX_VALUE;
        for (long now = System.nanoTime(); now < end; now = System.nanoTime()) {
            if (now >= nextSlow) {
                nextSlow += SECOND;
                SLOW.incrementAndGet();
                slow();
                System.out.println("ended " + System.currentTimeMillis());
            }
            if (now >= next) {
                next += interval;
                REQUESTS.incrementAndGet();
                request(Math.min((long) (1_100_000 / random.nextDouble()), 20_000_000));
                if (isLast) {
                    System.out.println("served " + System.currentTimeMillis());
                }
            } else {
                LockSupport.parkNanos(Math.min(Math.min(next, nextSlow), end) - now);
            }
        }
    }

    private static void slow() {
        step(9, 200_000_000);
    }

    private static void request(long ns) {
        step(9, ns);
    }

    private static void step(int depth, long ns) {
        if (depth > 1) {
            step(depth - 1, ns);
        } else {
            LockSupport.parkNanos(ns);
        }
    }
}
