package programs;

/**
 * Four threads that take one monitor all the time and give up their processor while they have it, so that others wait
 * for it. Prints how often it was taken.
 *
 * <p>Usage: {@code Yielding SECONDS}
 */
public final class Yielding {
    private static final Object LOCK = new Object();
    private static volatile boolean stopped;
    private static long taken;

    private Yielding() {}

    public static void main(String[] args) throws Exception {
        Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(Yielding::take);
            threads[i].start();
        }
        Thread.sleep(Long.parseLong(args[0]) * 1_000);
        stopped = true;
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("taken " + taken);
    }

    private static void take() {
        while (!stopped) {
            synchronized (LOCK) {
                Thread.yield();
                taken++;
            }
        }
    }
}
