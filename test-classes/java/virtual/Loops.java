package virtual;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;

/**
 * Loops of virtual threads that park, and a deep recursion. A line on stdin is answered when it is done:
 *
 * <p>{@code work WORK_MS PARK_MS} starts a loop that works and parks in turn, {@code poll WORK_US PARK_MS} one that
 * calls a method of its class; {@code naps} starts loops in eight
 * classes that park for a millisecond at a time; {@code wait COUNT DEPTH} has so many threads wait under so many calls,
 * and {@code wake} ends them; {@code deep DEPTH} has a platform thread wait under a recursion, and call a loop's class.
 */
public final class Loops {
    private static final List<Thread> WAITING = new ArrayList<>();
    private static volatile long sum;
    private static volatile boolean isAwake;

    private Loops() {}

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            int[] numbers = new int[2];
            for (int i = 1; i < words.length; i++) {
                numbers[i - 1] = Integer.parseInt(words[i]);
            }
            switch (words[0]) {
                case "work":
                    start(() -> Work.run(numbers[0], numbers[1]));
                    break;
                case "poll":
                    start(() -> Poll.run(numbers[0], numbers[1]));
                    break;
                case "naps":
                    Runnable[] naps = {Nap0::run, Nap1::run, Nap2::run, Nap3::run, Nap4::run, Nap5::run, Nap6::run, Nap7::run};
                    for (Runnable nap : naps) {
                        start(nap);
                    }
                    break;
                case "wait":
                    CountDownLatch inside = new CountDownLatch(numbers[0]);
                    for (int i = 0; i < numbers[0]; i++) {
                        WAITING.add(start(() -> Wait.at(numbers[1], inside)));
                    }
                    inside.await();
                    break;
                case "wake":
                    isAwake = true;
                    for (Thread thread : WAITING) {
                        LockSupport.unpark(thread);
                        thread.join();
                    }
                    break;
                case "deep":
                    Thread deep = new Thread(null, () -> Deep.at(numbers[0]), "deep", 1L << 29);
                    deep.setDaemon(true);
                    deep.start();
                    Thread calls = new Thread(Idle::calls, "calls");
                    calls.setDaemon(true);
                    calls.start();
                    break;
                default:
                    break;
            }
            System.out.println(line);
        }
        System.exit(0);
    }

    private static Thread start(Runnable run) throws Exception {
        Method start = Thread.class.getMethod("startVirtualThread", Runnable.class);
        return (Thread) start.invoke(null, run);
    }

    static final class Work {
        static void run(int workMs, int parkMs) {
            long until = System.nanoTime() + workMs * 1_000_000L;
            for (; ; ) {
                for (int i = 0; i < 1_000; i++) {
                    sum += i;
                }
                if (System.nanoTime() > until) {
                    LockSupport.parkNanos(parkMs * 1_000_000L);
                    until = System.nanoTime() + workMs * 1_000_000L;
                }
            }
        }
    }

    /** As {@link Work}, with a method that may be measured while the loop is not. */
    static final class Poll {
        static void run(int workUs, int parkMs) {
            for (; ; ) {
                long until = System.nanoTime() + workUs * 1_000L;
                while (System.nanoTime() < until) {
                    sum += helper(7);
                }
                LockSupport.parkNanos(parkMs * 1_000_000L);
            }
        }

        static int helper(int i) {
            return Integer.toString(i).length();
        }
    }

    /** Its method has a loop, as those of the classes below. */
    static final class Wait {
        static void at(int depth, CountDownLatch inside) {
            if (depth > 0) {
                at(depth - 1, inside);
                sum++;
                return;
            }
            inside.countDown();
            while (!isAwake) {
                LockSupport.park();
            }
        }
    }

    static final class Deep {
        static int at(int depth) {
            if (depth == 0) {
                Idle.waits();
                return 1;
            }
            return at(depth - 1) + 1;
        }
    }

    static final class Idle {
        static void waits() {
            for (; ; ) {
                LockSupport.parkNanos(1_000_000_000L);
            }
        }

        static void calls() {
            for (; ; ) {
                for (int i = 0; i < 3_000; i++) {
                    sum += helper(i);
                }
                LockSupport.parkNanos(1_000_000L);
            }
        }

        static long helper(int i) {
            return Long.toString(i).length();
        }
    }

    static final class Nap0 {
        static void run() {
            for (; ; ) {
                sum++;
                LockSupport.parkNanos(1_000_000L);
            }
        }
    }

    static final class Nap1 {
        static void run() {
            for (; ; ) {
                sum++;
                LockSupport.parkNanos(1_000_000L);
            }
        }
    }

    static final class Nap2 {
        static void run() {
            for (; ; ) {
                sum++;
                LockSupport.parkNanos(1_000_000L);
            }
        }
    }

    static final class Nap3 {
        static void run() {
            for (; ; ) {
                sum++;
                LockSupport.parkNanos(1_000_000L);
            }
        }
    }

    static final class Nap4 {
        static void run() {
            for (; ; ) {
                sum++;
                LockSupport.parkNanos(1_000_000L);
            }
        }
    }

    static final class Nap5 {
        static void run() {
            for (; ; ) {
                sum++;
                LockSupport.parkNanos(1_000_000L);
            }
        }
    }

    static final class Nap6 {
        static void run() {
            for (; ; ) {
                sum++;
                LockSupport.parkNanos(1_000_000L);
            }
        }
    }

    static final class Nap7 {
        static void run() {
            for (; ; ) {
                sum++;
                LockSupport.parkNanos(1_000_000L);
            }
        }
    }
}
