package programs;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Threads that call themselves to random depths, up to 60,000, until a line comes on stdin: how many calls there were.
 *
 * <p>Usage: {@code Depths THREADS}
 */
public final class Depths {
    private static final int DEEPEST = 60_000;
    private static final AtomicLong CALLS = new AtomicLong();

    private static volatile boolean isOver;

    private Depths() {}

    public static void main(String[] args) throws IOException, InterruptedException {
        Thread[] threads = new Thread[Integer.parseInt(args[0])];
        for (int i = 0; i < threads.length; i++) {
            SplittableRandom random = new SplittableRandom(i);
            threads[i] = new Thread(null, () -> recurseUntilOver(random), "depths-" + i, 256 << 20);
            threads[i].start();
        }
        System.out.println("ready");
        new BufferedReader(new InputStreamReader(System.in)).readLine();
        isOver = true;
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("calls " + CALLS.get());
    }

    private static void recurseUntilOver(SplittableRandom random) {
        // All the way down at least once.
        for (int depth = DEEPEST; depth > 0; depth = isOver ? 0 : next(random)) {
            recurse(depth - 1);
            CALLS.addAndGet(depth);
        }
    }

    /** Mostly flat. */
    private static int next(SplittableRandom random) {
        return 1 + random.nextInt(Math.min(DEEPEST, 1 << random.nextInt(4, 17)));
    }

    static int recurse(int depth) {
        return depth == 0 ? 0 : 1 + recurse(depth - 1);
    }
}
