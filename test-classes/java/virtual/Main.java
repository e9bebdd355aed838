package virtual;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Virtual threads that block in the middle of their calls, all at once, and go on wherever they are
 * put. Usage: {@code Main COUNTS THREADS}; what was called is written to COUNTS.
 */
public final class Main {
    private static final AtomicLong STEPS = new AtomicLong();
    private static final AtomicLong FAILED = new AtomicLong();
    private static final Object LOCK = new Object();
    private static volatile CountDownLatch atTheGate;
    private static volatile CountDownLatch gate;

    private Main() {}

    public static void main(String[] args) throws Exception {
        int threads = Integer.parseInt(args[1]);
        atTheGate = new CountDownLatch(threads);
        gate = new CountDownLatch(1);
        List<Thread> started = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            started.add(start(i));
        }
        atTheGate.await();
        // All of them are in `waits` now, and are on no carrier.
        Thread.sleep(100);
        gate.countDown();
        for (Thread thread : started) {
            thread.join();
        }
        Files.writeString(Path.of(args[0]), threads + " " + STEPS + " " + FAILED);
    }

    /** {@code Thread.ofVirtual()}, which the compiler does not know in Java 11. */
    private static Thread start(int number) throws ReflectiveOperationException {
        Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
        Class<?> type = Class.forName("java.lang.Thread$Builder");
        type.getMethod("name", String.class).invoke(builder, "virtual-" + number);
        return (Thread) type.getMethod("start", Runnable.class).invoke(builder, new Work(number));
    }

    private static final class Work implements Runnable {
        private final int number;

        Work(int number) {
            this.number = number;
        }

        @Override
        public void run() {
            for (int i = 0; i < 5; i++) {
                try {
                    outer(i);
                } catch (IllegalStateException e) {
                    Thread.yield();
                }
            }
            waits();
            recurse(3);
            if (number % 10 == 0) {
                pinned();
            }
        }

        private void outer(int i) {
            inner(i);
        }

        private void inner(int i) {
            STEPS.incrementAndGet();
            Thread.yield();
            if (i == 3) {
                FAILED.incrementAndGet();
                throw new IllegalStateException();
            }
            LockSupport.parkNanos(1_000);
        }

        /** Blocks while another thread may get the carrier. */
        private void waits() {
            atTheGate.countDown();
            try {
                gate.await();
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        }

        private void recurse(int n) {
            Thread.yield();
            if (n > 0) {
                recurse(n - 1);
            }
        }

        /** Blocks and keeps its carrier, on JDK 21. */
        private void pinned() {
            synchronized (LOCK) {
                LockSupport.parkNanos(10_000);
            }
        }
    }
}
