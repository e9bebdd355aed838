package virtual;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Virtual threads that park for a moment, again and again, so many at once that they fight over the scheduler's own
 * lock to be woken up.
 */
public class Naps {
    public static void main(String[] args) throws Exception {
        int times = Integer.parseInt(args[1]);
        // The compiler does not know virtual threads in Java 11.
        ExecutorService threads =
                (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        for (int i = 0; i < Integer.parseInt(args[0]); i++) {
            threads.submit(() -> {
                for (int time = 0; time < times; time++) {
                    nap();
                }
            });
        }
        threads.shutdown();
        threads.awaitTermination(1, TimeUnit.MINUTES);
    }

    static void nap() {
        LockSupport.parkNanos(50_000);
    }
}
