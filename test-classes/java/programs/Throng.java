package programs;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/**
 * As many threads at once as the JVM gives, up to a number, each of which calls some methods; and the same again, a
 * moment after they have ended: how many there were, and how many calls.
 *
 * <p>Usage: {@code Throng THREADS ROUNDS}
 */
public final class Throng {
    private static final AtomicLong CALLS = new AtomicLong();

    private Throng() {}

    public static void main(String[] args) throws InterruptedException {
        int rounds = Integer.parseInt(args[1]);
        int created = 0;
        for (int round = 0; round < rounds; round++) {
            if (round > 0) {
                // Whoever keeps something of threads that have ended has time to let it go.
                Thread.sleep(2_000);
            }
            created += round(Integer.parseInt(args[0]));
        }
        System.out.println("threads " + created);
        System.out.println("calls " + CALLS.get());
    }

    private static int round(int most) throws InterruptedException {
        CountDownLatch done = new CountDownLatch(1);
        Thread[] threads = new Thread[most];
        int created = 0;
        for (; created < most; created++) {
            CountDownLatch called = new CountDownLatch(1);
            threads[created] = new Thread(() -> {
                try {
                    CALLS.addAndGet(first(3));
                } finally {
                    called.countDown();
                }
                await(done);
            });
            try {
                threads[created].start();
            } catch (OutOfMemoryError e) {
                break;
            }
            await(called);
        }
        done.countDown();
        for (int i = 0; i < created; i++) {
            threads[i].join();
        }
        return created;
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Returns how many calls this one is with those below it. */
    static int first(int times) {
        int calls = 1;
        for (int i = 0; i < times; i++) {
            calls += second(i);
        }
        return calls;
    }

    static int second(int n) {
        return n % 2 == 0 ? 1 + third() : 1;
    }

    static int third() {
        return 1;
    }
}
