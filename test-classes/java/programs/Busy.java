package programs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;

/**
 * Threads that call without end, until a file appears. Then it prints how often each method was
 * called, a line per method, and "threads" with the number of threads that ended well.
 *
 * <p>Usage: {@code Busy THREADS FILE [REST]}: with REST, each thread rests for so many milliseconds after each
 * millisecond of calls.
 */
public final class Busy {
    /** Calls of outer, middle and leaf, and exceptions out of middle; counted after each round. */
    private static final AtomicLongArray CALLS = new AtomicLongArray(4);
    private static volatile boolean stopped;

    private Busy() {}

    public static void main(String[] args) throws Exception {
        Thread[] threads = new Thread[Integer.parseInt(args[0])];
        long restMs = args.length > 2 ? Long.parseLong(args[2]) : 0;
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(new Runner(restMs), "worker-" + i);
            threads[i].start();
        }
        waitFor(Path.of(args[1]));
        stopped = true;
        int ended = 0;
        for (Thread thread : threads) {
            thread.join(20_000);
            ended += thread.isAlive() ? 0 : 1;
        }
        System.out.println("outer " + CALLS.get(0));
        System.out.println("middle " + CALLS.get(1));
        System.out.println("leaf " + CALLS.get(2));
        System.out.println("thrown " + CALLS.get(3));
        System.out.println("threads " + ended);
    }

    private static void waitFor(Path file) throws IOException, InterruptedException {
        while (!Files.exists(file)) {
            Thread.sleep(5);
        }
    }

    /** Its class is not the one whose methods it calls: a class with a running loop is not retransformed. */
    private static final class Runner implements Runnable {
        private final long restMs;

        Runner(long restMs) {
            this.restMs = restMs;
        }

        @Override
        public void run() {
            Worker worker = new Worker();
            long rested = System.nanoTime();
            for (int i = 0; !stopped; i++) {
                worker.outer(i);
                CALLS.incrementAndGet(0);
                if (restMs > 0 && System.nanoTime() - rested > 1_000_000) {
                    LockSupport.parkNanos(restMs * 1_000_000);
                    rested = System.nanoTime();
                }
            }
            CALLS.addAndGet(1, worker.middles);
            CALLS.addAndGet(2, worker.leaves);
            CALLS.addAndGet(3, worker.thrown);
        }
    }

    private static final class Worker {
        private long sink;
        private long middles;
        private long leaves;
        private long thrown;

        private void outer(int i) {
            for (int n = 0; n < 50; n++) {
                try {
                    middle(i + n);
                } catch (IllegalStateException e) {
                    sink--;
                }
            }
        }

        private void middle(int i) {
            middles++;
            for (int n = 0; n < 10; n++) {
                leaf(i);
            }
            if (i % 16 == 0) {
                thrown++;
                throw FAILURE;
            }
        }

        private void leaf(int i) {
            leaves++;
            sink += i;
        }
    }

    private static final IllegalStateException FAILURE = new IllegalStateException();
}
