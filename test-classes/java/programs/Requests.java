package programs;

import java.lang.management.ManagementFactory;

/**
 * Threads that serve requests, and print what the JVM says that each request allocated: {@code request THREAD BYTES}, in
 * the order in which the thread served them.
 *
 * <p>Usage: {@code Requests REQUESTS [virtual]}: with virtual, one more thread is virtual; the JVM does not say its bytes.
 */
public final class Requests {
    private static final int THREADS = 3;

    private static volatile Object sink;

    private Requests() {}

    /** Slow enough to be recorded. */
    static void serve(int number) throws InterruptedException {
        read(number);
        Thread.sleep(2);
    }

    /** Up to 5 MB in small and large objects: more than the young generation of a small heap. */
    private static void read(int number) throws InterruptedException {
        for (int i = 0; i < number % 50; i++) {
            sink = new byte[10 * i];
            sink = new long[10_000];
            sink = Integer.valueOf(1_000 + i);
        }
        Thread.sleep(2);
    }

    /** Something else that the thread allocates, which is no request's. */
    private static void rest() {
        sink = new byte[100_000];
    }

    @SuppressWarnings("deprecation") // Its successor is newer than the oldest JDK.
    private static void work(com.sun.management.ThreadMXBean threads, int requests, StringBuilder out)
            throws InterruptedException {
        long id = Thread.currentThread().getId();
        String name = Thread.currentThread().getName();
        for (int i = 0; i < requests; i++) {
            rest();
            // What reading it allocates is nobody's either.
            long first = threads.getThreadAllocatedBytes(id);
            long before = threads.getThreadAllocatedBytes(id);
            serve(i);
            long after = threads.getThreadAllocatedBytes(id);
            long bytes = after - before - (before - first);
            out.append("request ").append(name).append(' ').append(bytes).append('\n');
        }
    }

    public static void main(String[] args) throws Exception {
        int requests = Integer.parseInt(args[0]);
        com.sun.management.ThreadMXBean threads =
                (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        StringBuilder[] outs = new StringBuilder[THREADS];
        Thread[] workers = new Thread[THREADS];
        for (int i = 0; i < THREADS; i++) {
            StringBuilder out = outs[i] = new StringBuilder();
            workers[i] = new Thread(() -> run(() -> work(threads, requests, out)), "worker-" + i);
            workers[i].start();
        }
        if (args.length > 1) {
            Runnable serving = () -> run(() -> {
                for (int i = 0; i < requests; i++) {
                    serve(i);
                }
            });
            ((Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, serving)).join();
        }
        for (int i = 0; i < THREADS; i++) {
            workers[i].join();
            System.out.print(outs[i]);
        }
    }

    private interface Work {
        void run() throws InterruptedException;
    }

    private static void run(Work work) {
        try {
            work.run();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }
}
