package virtual;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/**
 * Very many virtual threads whose calls take long and end at once; a few have calls of other methods that take less.
 * Usage: {@code Flood THREADS}.
 */
public final class Flood {
    private static volatile CountDownLatch gate;

    private Flood() {}

    public static void main(String[] args) throws Exception {
        int threads = Integer.parseInt(args[0]);
        gate = new CountDownLatch(1);
        List<Thread> started = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            Runnable work = i % 1_000 == 500 ? Flood::rare : Flood::noisy;
            started.add(start(work));
        }
        Thread.sleep(200);
        gate.countDown();
        for (Thread thread : started) {
            thread.join();
        }
    }

    /** {@code Thread.startVirtualThread}, which the compiler does not know in Java 11. */
    private static Thread start(Runnable work) throws ReflectiveOperationException {
        return (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, work);
    }

    private static void noisy() {
        pause(0);
    }

    /** Waits for the gate, then for 50 ms. */
    private static void rare() {
        pause(0);
        pausesRarely();
    }

    private static void pausesRarely() {
        pause(50);
    }

    private static void pause(long ms) {
        try {
            gate.await();
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
