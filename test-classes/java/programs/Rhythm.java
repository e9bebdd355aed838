package programs;

import java.util.concurrent.locks.LockSupport;

/**
 * Threads that leave the processor in a rhythm: {@code Rhythm SECONDS}. {@code sleeps} sleeps for 20 ms each time,
 * {@code parks} parks for 60. Prints {@code METHOD TIMES NS} for each: how often, and in how many nanoseconds.
 */
public final class Rhythm {
    private Rhythm() {}

    private interface Pause {
        void once() throws InterruptedException;
    }

    static void sleeps() throws InterruptedException {
        Thread.sleep(20);
    }

    static void parks() {
        LockSupport.parkNanos(60_000_000);
    }

    private static Thread start(String name, Pause pause, long seconds) {
        Thread thread = new Thread(() -> {
            long begin = System.nanoTime();
            long end = begin + seconds * 1_000_000_000;
            long times = 0;
            try {
                while (System.nanoTime() < end) {
                    pause.once();
                    times++;
                }
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            long took = System.nanoTime() - begin;
            synchronized (Rhythm.class) {
                System.out.println(name + " " + times + " " + took);
            }
        }, name);
        thread.start();
        return thread;
    }

    public static void main(String[] args) throws InterruptedException {
        long seconds = Long.parseLong(args[0]);
        Thread[] threads = {
            start("sleeps", Rhythm::sleeps, seconds), start("parks", Rhythm::parks, seconds)
        };
        for (Thread thread : threads) {
            thread.join();
        }
    }
}
