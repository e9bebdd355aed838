package programs;

import java.lang.management.ManagementFactory;

/**
 * Threads that allocate objects of known classes in known methods, and print their bytes: {@code allocated bytes 123}.
 * The line {@code allocated all} has what the JVM says of the threads.
 *
 * <p>Usage: {@code Allocating ROUNDS [virtual]}: with virtual, one more thread is virtual; the JVM does not say its bytes.
 */
public final class Allocating {
    /** Of 24 bytes with compressed class pointers. */
    private static final class Item {
        long price = 1;
        int amount = 2;
    }

    private static final int THREADS = 2;
    private static final int BYTES = 10_000 - 16;
    private static final int LONGS = 250;
    private static final int ITEMS = 100;

    private static volatile Object sink;

    private Allocating() {}

    private static void makeBytes() {
        sink = new byte[BYTES];
    }

    private static void makeLongs() {
        sink = new long[LONGS];
    }

    private static void makeItems() {
        for (int i = 0; i < ITEMS; i++) {
            sink = new Item();
        }
    }

    private static void run(int rounds) {
        for (int round = 0; round < rounds; round++) {
            makeBytes();
            makeLongs();
            makeItems();
        }
    }

    @SuppressWarnings("deprecation") // Its successor is newer than the oldest JDK.
    private static long id(Thread thread) {
        return thread.getId();
    }

    public static void main(String[] args) throws Exception {
        int rounds = Integer.parseInt(args[0]);
        boolean isVirtual = args.length > 1;
        com.sun.management.ThreadMXBean threads =
                (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        long[] allocated = new long[THREADS];
        Thread[] workers = new Thread[THREADS];
        for (int i = 0; i < THREADS; i++) {
            int own = i;
            workers[i] = new Thread(
                    () -> {
                        long id = id(Thread.currentThread());
                        long before = threads.getThreadAllocatedBytes(id);
                        run(rounds);
                        allocated[own] = threads.getThreadAllocatedBytes(id) - before;
                    },
                    "worker-" + i);
            workers[i].start();
        }
        if (isVirtual) {
            virtual(() -> run(rounds)).join();
        }
        for (Thread worker : workers) {
            worker.join();
        }
        long all = (long) rounds * (THREADS + (isVirtual ? 1 : 0));
        System.out.println("allocated bytes " + all * (BYTES + 16));
        System.out.println("allocated longs " + all * (8 * LONGS + 16));
        System.out.println("allocated items " + all * ITEMS * 24);
        System.out.println("allocated all " + (allocated[0] + allocated[1]));
    }

    /** By reflection, because the oldest JDKs have no virtual threads. */
    private static Thread virtual(Runnable task) throws Exception {
        Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
        Class<?> type = Class.forName("java.lang.Thread$Builder");
        builder = type.getMethod("name", String.class).invoke(builder, "virtual-worker");
        return (Thread) type.getMethod("start", Runnable.class).invoke(builder, task);
    }
}
