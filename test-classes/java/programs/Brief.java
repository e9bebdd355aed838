package programs;

/** Threads one after another, each of which works for a moment: {@code Brief THREADS MILLIS}. */
public final class Brief {
    private static volatile double sum;

    private Brief() {}

    private static void work(long millis) {
        double x = 1;
        long end = System.nanoTime() + millis * 1_000_000;
        do {
            for (int i = 0; i < 1_000; i++) x = x * 1.0000001 + 1e-9;
        } while (System.nanoTime() < end);
        sum += x;
    }

    public static void main(String[] args) throws InterruptedException {
        long millis = Long.parseLong(args[1]);
        for (int i = 0; i < Integer.parseInt(args[0]); i++) {
            Thread thread = new Thread(() -> work(millis), "brief-" + i);
            thread.start();
            thread.join();
        }
    }
}
