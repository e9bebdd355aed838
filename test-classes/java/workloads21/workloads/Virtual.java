package workloads;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.LongAdder;

/** 10,000 virtual threads, each of which works and sleeps ten times: milliseconds, of the third time. */
public final class Virtual {
    private static final int THREADS = 10_000;
    private static final int STEPS = 10;
    private static final LongAdder SUM = new LongAdder();

    private Virtual() {}

    static void request() {
        int x = 1;
        for (int i = 0; i < STEPS; i++) {
            x = step(x);
            rest();
        }
        SUM.add(x & 1);
    }

    static int step(int x) {
        for (int i = 0; i < 50; i++) {
            x = work(x + i);
        }
        return x;
    }

    static int work(int x) {
        for (int i = 0; i < 20; i++) {
            x = x * 31 + i;
        }
        return x;
    }

    static void rest() {
        try {
            Thread.sleep(1);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    public static void main(String[] args) throws Exception {
        run();
        Figures.ready();
        run();
        long begin = System.nanoTime();
        run();
        Figures.print("ms", (System.nanoTime() - begin) / 1e6);
        long requests = 3L * THREADS;
        Figures.truth("workloads.Virtual.request", requests, 0, requests);
        Figures.truth("workloads.Virtual.work", requests * STEPS * 50, 0, -1);
        Figures.truth("workloads.Virtual.rest", requests * STEPS, 0, requests * STEPS);
    }

    private static void run() {
        try (ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor()) {
            for (int i = 0; i < THREADS; i++) {
                threads.execute(Virtual::request);
            }
        }
    }
}
