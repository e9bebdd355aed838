package virtual;

/**
 * Virtual threads that use the processor all the time and wait for nothing.
 *
 * <p>Usage: {@code Burning THREADS SECONDS}
 */
public final class Burning {
    private static volatile long kept;

    private Burning() {}

    public static void main(String[] args) throws Exception {
        long end = System.nanoTime() + Long.parseLong(args[1]) * 1_000_000_000;
        Thread[] threads = new Thread[Integer.parseInt(args[0])];
        for (int i = 0; i < threads.length; i++) {
            Runnable burns = () -> burn(end);
            // The compiler does not know it in Java 11.
            threads[i] = (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, burns);
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void burn(long end) {
        long own = 1;
        while (System.nanoTime() < end) {
            for (int i = 0; i < 100_000; i++) {
                own = own * 6364136223846793005L + 1442695040888963407L;
            }
            kept = own;
        }
    }
}
