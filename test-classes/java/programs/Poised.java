package programs;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Threads that wait until a line comes on stdin, and then each call methods for the first time: how many calls that
 * were.
 *
 * <p>Usage: {@code Poised THREADS}
 */
public final class Poised {
    private Poised() {}

    public static void main(String[] args) throws Exception {
        int threads = Integer.parseInt(args[0]);
        AtomicLong calls = new AtomicLong();
        CountDownLatch ready = new CountDownLatch(threads);
        CountDownLatch go = new CountDownLatch(1);
        CountDownLatch done = new CountDownLatch(threads);
        for (int i = 0; i < threads; i++) {
            Thread thread = new Thread(null, () -> {
                ready.countDown();
                try {
                    go.await();
                    calls.addAndGet(Work.outer(3));
                    done.countDown();
                    // The memory of a thread that ends would be there for the next.
                    done.await();
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
            }, "poised-" + i, 256 << 10);
            thread.start();
        }
        ready.await();
        System.out.println("ready");
        System.in.read();
        go.countDown();
        done.await();
        System.out.println("calls " + calls.get());
    }

    private static final class Work {
        private static int outer(int times) {
            int calls = 1;
            for (int i = 0; i < times; i++) {
                calls += inner(i);
            }
            return calls;
        }

        private static int inner(int n) {
            return n >= 0 ? 1 : 0;
        }
    }
}
