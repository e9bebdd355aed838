package workloads;

import java.lang.management.ManagementFactory;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;

/**
 * How the cost of a call grows. Usage, one of:
 *
 * <ul>
 *   <li>{@code Growth depth N}: a recursion N deep, again and again: nanoseconds a call
 *   <li>{@code Growth threads N}: N threads that call one method: nanoseconds of processor time a call
 *   <li>{@code Growth methods N}: N methods (of classes {@code many.C0} and so on, 500 each) that are called
 *       in turn: nanoseconds a call
 *   <li>{@code Growth records N}: N calls of 20 us a second for five seconds, by a thread that never rests:
 *       nanoseconds of the process's processor time a call
 * </ul>
 *
 * Each says how much memory the process takes in the end, in kilobytes.
 */
public final class Growth {
    private static final int PER_CLASS = 500;
    private static volatile int sink;

    private Growth() {}

    static int deeper(int depth) {
        return depth <= 1 ? 1 : deeper(depth - 1) + 1;
    }

    static int step(int x) {
        x ^= x << 13;
        x ^= x >>> 17;
        return x ^ x << 5;
    }

    static long wait20us() {
        long begin = System.nanoTime();
        long now = begin;
        while (now - begin < 20_000) {
            now = System.nanoTime();
        }
        return now;
    }

    public static void main(String[] args) throws Exception {
        int n = Integer.parseInt(args[1]);
        switch (args[0]) {
            case "depth":
                depth(n);
                break;
            case "threads":
                threads(n);
                break;
            case "methods":
                methods(n);
                break;
            default:
                records(n);
        }
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmRSS:")) {
                Figures.print("rss_kb", Double.parseDouble(line.replaceAll("[^0-9]", "")));
            }
        }
    }

    private static void depth(int depth) {
        int calls = 400_000;
        long[] times = new long[30];
        for (int batch = -30; batch < times.length; batch++) {
            long begin = System.nanoTime();
            for (int made = 0; made < calls; made += depth) {
                sink += deeper(depth);
            }
            if (batch >= 0) {
                times[batch] = System.nanoTime() - begin;
            }
        }
        Figures.printMedian("ns_per_call", times, (calls + depth - 1) / depth * (long) depth);
    }

    private static int steps(int calls) {
        int x = 1;
        for (int i = 0; i < calls; i++) {
            x = step(x);
        }
        return x;
    }

    private static void threads(int threads) throws InterruptedException {
        for (int i = 0; i < 40; i++) {
            sink += steps(200_000);
        }
        int calls = 40_000_000 / threads;
        CountDownLatch done = new CountDownLatch(threads);
        long begin = cpuNs();
        for (int t = 0; t < threads; t++) {
            Thread thread = new Thread(() -> {
                sink += steps(calls);
                done.countDown();
                // It is still there when the memory is looked at.
                LockSupport.park();
            });
            thread.setDaemon(true);
            thread.start();
        }
        done.await();
        Figures.print("ns_per_call", (double) (cpuNs() - begin) / ((long) calls * threads));
    }

    private static void methods(int methods) throws Exception {
        Method[] all = new Method[Math.max(1, methods / PER_CLASS)];
        for (int c = 0; c < all.length; c++) {
            all[c] = Class.forName("many.C" + c).getMethod("all", int.class, int.class, int.class);
        }
        int each = Math.min(methods, PER_CLASS);
        int times = Math.max(1, 100_000 / methods);
        int rounds = 60;
        long[] nanos = new long[rounds / 2];
        for (int round = nanos.length - rounds; round < nanos.length; round++) {
            long begin = System.nanoTime();
            for (Method of : all) {
                sink += (Integer) of.invoke(null, sink, each, times);
            }
            if (round >= 0) {
                nanos[round] = System.nanoTime() - begin;
            }
        }
        Arrays.sort(nanos);
        Figures.print("ns_per_call", (double) nanos[nanos.length / 2] / ((long) all.length * each * times));
    }

    private static void records(int perSecond) {
        int calls = 5 * perSecond;
        long interval = 1_000_000_000L / perSecond;
        long start = System.nanoTime();
        long begin = cpuNs();
        for (int i = 0; i < calls; i++) {
            wait20us();
            while (System.nanoTime() - start < i * interval) {
                Thread.onSpinWait();
            }
        }
        Figures.print("ns_per_call", (double) (cpuNs() - begin) / calls);
        Figures.print("seconds", (System.nanoTime() - start) / 1e9);
    }

    private static long cpuNs() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }
}
