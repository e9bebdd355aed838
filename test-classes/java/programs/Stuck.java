package programs;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * A thread whose call hangs, one that makes short calls in a long one, and, where there are any, a
 * virtual one that hangs. All end when a file appears.
 *
 * <p>Usage: {@code Stuck FILE}
 */
public final class Stuck {
    private static volatile Path file;

    private Stuck() {}

    public static void main(String[] args) throws Exception {
        file = Path.of(args[0]);
        List<Thread> threads = new ArrayList<>();
        threads.add(new Thread(new Hangs(), "hangs, \"here\""));
        threads.add(new Thread(new Loops(), "loops"));
        for (Thread thread : threads) {
            thread.start();
        }
        if (Runtime.version().feature() >= 21) {
            // The compiler does not know it in Java 11.
            Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
            Class<?> type = Class.forName("java.lang.Thread$Builder");
            type.getMethod("name", String.class).invoke(builder, "virtual");
            threads.add(
                    (Thread) type.getMethod("start", Runnable.class).invoke(builder, new Hangs()));
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static final class Hangs implements Runnable {
        @Override
        public void run() {
            outer();
        }

        private void outer() {
            quick();
            waits();
        }

        private void quick() {}

        private void waits() {
            while (!Files.exists(file)) {
                sleep(10);
            }
        }
    }

    private static final class Loops implements Runnable {
        @Override
        public void run() {
            slow();
        }

        private void slow() {
            while (!Files.exists(file)) {
                step();
            }
        }

        private void step() {
            sleep(100);
        }
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
