package programs;

import java.io.IOException;
import java.util.concurrent.CountDownLatch;

/**
 * Threads that have called a method and wait, and after them one that calls a small method all the time, until the
 * standard input ends. Says {@code ready} when that one has begun.
 *
 * <p>Usage: {@code Crowded THREADS}
 */
public final class Crowded {
    private static volatile boolean isOver;
    private static volatile int sink;

    private Crowded() {}

    public static void main(String[] args) throws IOException, InterruptedException {
        for (int i = Integer.parseInt(args[0]); i > 0; i--) {
            CountDownLatch called = new CountDownLatch(1);
            Thread thread = new Thread(() -> {
                sink = small(1);
                called.countDown();
                sleep();
            });
            thread.setDaemon(true);
            thread.start();
            called.await();
        }
        Thread busy = new Thread(() -> {
            while (!isOver) {
                for (int i = 0; i < 1_000; i++) {
                    sink = small(i);
                }
            }
        });
        busy.start();
        System.out.println("ready");
        while (System.in.read() >= 0) {}
        isOver = true;
        busy.join();
    }

    private static void sleep() {
        try {
            Thread.sleep(Long.MAX_VALUE);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    static int small(int n) {
        int found = n;
        for (int i = 0; i < 5; i++) {
            found = found * 31 + i;
        }
        return found;
    }
}
