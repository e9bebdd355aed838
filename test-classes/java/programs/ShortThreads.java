package programs;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

/**
 * Starts threads one after the other, each of which computes for two to three milliseconds, and prints their CPU time in
 * nanoseconds and their number.
 *
 * <p>Usage: {@code ShortThreads SECONDS}
 */
public final class ShortThreads {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final long CPU_NS = 2_500_000;
    private static volatile long sum;
    private static long allNs;

    private ShortThreads() {}

    public static void main(String[] args) throws InterruptedException {
        long end = System.nanoTime() + Long.parseLong(args[0]) * 1_000_000_000;
        int count = 0;
        for (; System.nanoTime() < end; count++) {
            Thread thread = new Thread(ShortThreads::compute);
            thread.start();
            thread.join();
        }
        System.out.println(allNs + " " + count);
    }

    private static void compute() {
        long start = THREADS.getCurrentThreadCpuTime();
        long seed = 1;
        long now = start;
        while (now - start < CPU_NS) {
            for (int i = 0; i < 100_000; i++) {
                seed ^= seed << 13;
                seed ^= seed >>> 7;
                seed ^= seed << 17;
            }
            now = THREADS.getCurrentThreadCpuTime();
        }
        sum = seed;
        allNs += now - start;
    }
}
