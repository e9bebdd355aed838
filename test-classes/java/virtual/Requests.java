package virtual;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** Virtual threads without names, whose requests wait several times, so that they change carriers. */
public class Requests {
    public static void main(String[] args) throws Exception {
        // The compiler does not know virtual threads in Java 11.
        ExecutorService threads =
                (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        for (int i = 0; i < Integer.parseInt(args[0]); i++) {
            threads.submit(() -> {
                request();
                return 0;
            });
        }
        threads.shutdown();
        threads.awaitTermination(1, TimeUnit.MINUTES);
    }

    static void request() throws InterruptedException {
        step(20);
        step(30);
        step(5);
    }

    static void step(long ms) throws InterruptedException {
        Thread.sleep(ms);
    }
}
