package programs;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Threads that wait for monitors, and know how often and how long: one thread has the monitor of a shelf, a class or an
 * array while others come for it. It prints the waits of 5 ms and more, and how many
 * are not far from that: {@code waits shelf COUNT NANOSECONDS NEAR}.
 *
 * <p>Usage: {@code Contended ROUNDS WAITERS HOLD_MS [virtual]}: with virtual, waiters are virtual threads.
 */
public final class Contended {
    private static final class Shelf {
        long sum;

        /** Waits for the monitor, and returns how long that took. */
        long reserve() {
            long began = System.nanoTime();
            synchronized (this) {
                sum++;
                return System.nanoTime() - began;
            }
        }
    }

    private static final long LONG_NS = 5_000_000;
    private static final long[] COUNTS = new long[4];

    private Contended() {}

    private static long reserveClass() {
        long began = System.nanoTime();
        synchronized (Contended.class) {
            COUNTS[0]++;
            return System.nanoTime() - began;
        }
    }

    private static long reserveArray() {
        long began = System.nanoTime();
        synchronized (COUNTS) {
            COUNTS[1]++;
            return System.nanoTime() - began;
        }
    }

    private interface Wait {
        long run();
    }

    public static void main(String[] args) throws Exception {
        int rounds = Integer.parseInt(args[0]);
        int waiters = Integer.parseInt(args[1]);
        long holdMs = Long.parseLong(args[2]);
        boolean isVirtual = args.length > 3;
        Shelf shelf = new Shelf();
        hold("shelf", shelf, shelf::reserve, rounds, waiters, holdMs, isVirtual);
        hold("class", Contended.class, Contended::reserveClass, rounds, waiters, holdMs, isVirtual);
        hold("array", COUNTS, Contended::reserveArray, rounds, waiters, holdMs, isVirtual);
    }

    private static void hold(
            String name, Object lock, Wait wait, int rounds, int waiters, long holdMs, boolean isVirtual)
            throws Exception {
        AtomicLong count = new AtomicLong();
        AtomicLong sum = new AtomicLong();
        AtomicLong near = new AtomicLong();
        Runnable come = () -> {
            long waited = wait.run();
            if (waited >= LONG_NS) {
                count.incrementAndGet();
                sum.addAndGet(waited);
            }
            if (waited >= LONG_NS / 5 && waited < LONG_NS * 4) {
                near.incrementAndGet();
            }
        };
        for (int round = 0; round < rounds; round++) {
            CountDownLatch held = new CountDownLatch(1);
            Thread holder = new Thread(() -> holdFor(lock, held, holdMs), "holder");
            holder.start();
            held.await();
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < waiters; i++) {
                threads.add(thread(come, "waiter-" + i, isVirtual));
            }
            for (Thread thread : threads) {
                thread.join();
            }
            holder.join();
        }
        System.out.println("waits " + name + " " + count + " " + sum + " " + near);
    }

    private static void holdFor(Object lock, CountDownLatch held, long holdMs) {
        synchronized (lock) {
            held.countDown();
            try {
                Thread.sleep(holdMs);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    /** By reflection, because the oldest JDKs have no virtual threads. */
    private static Thread thread(Runnable task, String name, boolean isVirtual) throws Exception {
        if (!isVirtual) {
            Thread thread = new Thread(task, name);
            thread.start();
            return thread;
        }
        Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
        Class<?> type = Class.forName("java.lang.Thread$Builder");
        builder = type.getMethod("name", String.class).invoke(builder, name);
        return (Thread) type.getMethod("start", Runnable.class).invoke(builder, task);
    }
}
