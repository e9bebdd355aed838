package programs;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Threads that wait for monitors and locks, and know how often and how long: one thread has them while others come for
 * them. It prints the waits of 5 ms and more, and how many are not far from that:
 * {@code waits shelf COUNT NANOSECONDS NEAR}. Idle threads of a pool wait all the time.
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
    private static final ReentrantLock LOCK = new ReentrantLock();
    private static final Semaphore PERMITS = new Semaphore(1);
    private static final ReentrantLock DOOR = new ReentrantLock();
    private static final Condition OPENED = DOOR.newCondition();
    private static boolean isOpen;
    private static volatile CountDownLatch latch;

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

    private static long reserveLock() {
        long began = System.nanoTime();
        LOCK.lock();
        try {
            COUNTS[2]++;
            return System.nanoTime() - began;
        } finally {
            LOCK.unlock();
        }
    }

    private static long reservePermit() {
        long began = System.nanoTime();
        PERMITS.acquireUninterruptibly();
        try {
            COUNTS[3]++;
            return System.nanoTime() - began;
        } finally {
            PERMITS.release();
        }
    }

    private static long awaitDoor() {
        DOOR.lock();
        try {
            long began = System.nanoTime();
            while (!isOpen) {
                OPENED.awaitUninterruptibly();
            }
            return System.nanoTime() - began;
        } finally {
            DOOR.unlock();
        }
    }

    private static long awaitLatch() {
        long began = System.nanoTime();
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
        return System.nanoTime() - began;
    }

    private interface Wait {
        long run();
    }

    /** Takes what others wait for, says so, and keeps it for a while. */
    private interface Hold {
        void run(Runnable held) throws InterruptedException;
    }

    public static void main(String[] args) throws Exception {
        int rounds = Integer.parseInt(args[0]);
        int waiters = Integer.parseInt(args[1]);
        long holdMs = Long.parseLong(args[2]);
        boolean isVirtual = args.length > 3;
        Shelf shelf = new Shelf();
        ExecutorService idle = Executors.newFixedThreadPool(2);
        idle.submit(() -> {});
        idle.submit(() -> {});
        Rounds all = new Rounds(rounds, waiters, isVirtual);
        all.run("shelf", held -> holdMonitor(shelf, held, holdMs), shelf::reserve);
        all.run("class", held -> holdMonitor(Contended.class, held, holdMs), Contended::reserveClass);
        all.run("array", held -> holdMonitor(COUNTS, held, holdMs), Contended::reserveArray);
        all.run("lock", held -> holdLock(held, holdMs), Contended::reserveLock);
        all.run("permit", held -> holdPermit(held, holdMs), Contended::reservePermit);
        all.run("door", held -> openDoor(held, holdMs), Contended::awaitDoor);
        all.run("latch", held -> countDown(held, holdMs), Contended::awaitLatch);
        idle.shutdown();
    }

    private static void holdMonitor(Object lock, Runnable held, long ms) throws InterruptedException {
        synchronized (lock) {
            held.run();
            Thread.sleep(ms);
        }
    }

    private static void holdLock(Runnable held, long ms) throws InterruptedException {
        LOCK.lock();
        try {
            held.run();
            Thread.sleep(ms);
        } finally {
            LOCK.unlock();
        }
    }

    private static void holdPermit(Runnable held, long ms) throws InterruptedException {
        PERMITS.acquire();
        try {
            held.run();
            Thread.sleep(ms);
        } finally {
            PERMITS.release();
        }
    }

    private static void openDoor(Runnable held, long ms) throws InterruptedException {
        setOpen(false);
        held.run();
        Thread.sleep(ms);
        setOpen(true);
    }

    private static void setOpen(boolean open) {
        DOOR.lock();
        try {
            isOpen = open;
            OPENED.signalAll();
        } finally {
            DOOR.unlock();
        }
    }

    private static void countDown(Runnable held, long ms) throws InterruptedException {
        latch = new CountDownLatch(1);
        held.run();
        Thread.sleep(ms);
        latch.countDown();
    }

    private static final class Rounds {
        private final int rounds;
        private final int waiters;
        private final boolean isVirtual;

        Rounds(int rounds, int waiters, boolean isVirtual) {
            this.rounds = rounds;
            this.waiters = waiters;
            this.isVirtual = isVirtual;
        }

        void run(String name, Hold hold, Wait wait) throws Exception {
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
                Thread holder = new Thread(() -> keep(hold, held), "holder");
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
    }

    private static void keep(Hold hold, CountDownLatch held) {
        try {
            hold.run(held::countDown);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
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
