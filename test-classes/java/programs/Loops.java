package programs;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.locks.LockSupport;

/**
 * Five threads, each in one call of a method that never returns and calls a small hot helper. Helpers are chains of
 * multiplications: how fast they are does not depend on how well they were compiled. Loops rest most of the time, so
 * that other tests can run beside them: only their CPU time counts. A virtual thread's stays on its carrier meanwhile.
 *
 * <p>On its stdin it is told: {@code rounds}, and answers {@code NAME CPU_NS ROUNDS} for each loop in one line, where
 * CPU_NS is the CPU time of its thread, or {@code null}; {@code end NAME}, to end a loop; {@code call COUNT}, to call
 * the helper of loop {@code same} so often; {@code brief COUNT}, to have so many threads call a loop that takes three
 * seconds, every five seconds; {@code park}, to have a virtual thread run a loop that sleeps most of the time;
 * {@code rest MS}, how long loops rest after some ten milliseconds of work, instead of 80.
 * It ends with its stdin.
 */
public final class Loops {
    /** Rounds by loop. One thread writes each. */
    private static final Counter[] COUNTERS = new Counter[5];
    private static volatile long sum;
    private static volatile long restNs = 80_000_000;

    private Loops() {}

    /** On a cache line of its own. */
    private static final class Counter {
        final String name;
        volatile String tid;
        volatile boolean ends;
        long p1, p2, p3, p4, p5, p6, p7;
        volatile long rounds;
        long q1, q2, q3, q4, q5, q6, q7;

        Counter(String name) {
            this.name = name;
        }

        /** CPU time and rounds of one moment: of several readings the one in which this thread was stopped for least. */
        String figures() throws java.io.IOException {
            String figures = null;
            long shortest = Long.MAX_VALUE;
            for (int i = 0; i < 5 && tid != null; i++) {
                long before = rounds;
                String times = Files.readString(Path.of("/proc/self/task/" + tid + "/schedstat"));
                long after = rounds;
                if (after - before < shortest) {
                    shortest = after - before;
                    figures = times.split(" ")[0] + " " + (before + after) / 2;
                }
            }
            return figures == null ? "null null" : figures;
        }

        /** The calling thread is the one that counts here. */
        void own() {
            try {
                tid = Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName().toString();
            } catch (java.io.IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        String[] names = {"same", "other", "lambda", "virtual", "pool"};
        for (int i = 0; i < names.length; i++) {
            COUNTERS[i] = new Counter(names[i]);
        }
        start(new SameClass(COUNTERS[0]), "same");
        start(new OtherClass(COUNTERS[1]), "other");
        start(InLambda.loop(COUNTERS[2]), "lambda");
        startVirtual(() -> Pinned.run(new InVirtual(COUNTERS[3])));
        Pool pool = new Pool();
        pool.submit(new InPool(COUNTERS[4]));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(answer(line.split(" ")));
        }
        System.exit(0);
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "end":
                for (Counter counter : COUNTERS) {
                    counter.ends |= counter.name.equals(words[1]);
                }
                return "ended";
            case "call":
                Calls.same(Integer.parseInt(words[1]));
                return "called";
            case "brief":
                for (int i = 0; i < Integer.parseInt(words[1]); i++) {
                    start(new Brief(), "brief");
                    pause(100);
                }
                return "started";
            case "rest":
                restNs = Long.parseLong(words[1]) * 1_000_000;
                return "rests";
            case "park":
                startVirtual(new Parking());
                return "started";
            default:
                return figures();
        }
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static String figures() throws java.io.IOException {
        StringBuilder text = new StringBuilder();
        for (Counter counter : COUNTERS) {
            text.append(counter.name).append(' ').append(counter.figures()).append(' ');
        }
        return text.toString().trim();
    }

    private static void start(Runnable loop, String name) {
        Thread thread = new Thread(loop, name);
        thread.setDaemon(true);
        thread.start();
    }

    /** From JDK 21 on in a virtual thread. */
    private static void startVirtual(Runnable loop) throws Exception {
        try {
            Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, loop);
        } catch (NoSuchMethodException e) {
            start(loop, "virtual");
        }
    }

    private static final class SameClass implements Runnable {
        private final Counter counter;

        SameClass(Counter counter) {
            this.counter = counter;
        }

        @Override
        public void run() {
            counter.own();
            long seed = 1;
            while (!counter.ends) {
                for (int i = 0; i < 60; i++) {
                    seed ^= seed << 13;
                    seed ^= seed >>> 7;
                    seed ^= seed << 17;
                    seed += helper(seed);
                }
                counter.rounds = counter.rounds + 1 + (seed == 7 ? 1 : 0);
                if ((counter.rounds & 2047) == 0) {
                    LockSupport.parkNanos(restNs);
                }
            }
        }

        private static long helper(long seed) {
            for (int i = 0; i < 10; i++) {
                seed = (seed ^ seed >>> 29) * 6364136223846793005L;
            }
            return seed;
        }
    }

    private static final class OtherClass implements Runnable {
        private final Counter counter;

        OtherClass(Counter counter) {
            this.counter = counter;
        }

        @Override
        public void run() {
            counter.own();
            long seed = 1;
            while (!counter.ends) {
                for (int i = 0; i < 60; i++) {
                    seed ^= seed << 13;
                    seed ^= seed >>> 7;
                    seed ^= seed << 17;
                    seed += Helper.help(seed);
                }
                counter.rounds = counter.rounds + 1 + (seed == 7 ? 1 : 0);
                if ((counter.rounds & 2047) == 0) {
                    LockSupport.parkNanos(restNs);
                }
            }
        }
    }

    private static final class Helper {
        static long help(long seed) {
            for (int i = 0; i < 10; i++) {
                seed = (seed ^ seed >>> 29) * 6364136223846793005L;
            }
            return seed;
        }
    }

    private static final class InLambda {
        static Runnable loop(Counter counter) {
            return () -> {
                counter.own();
                long seed = 1;
                while (!counter.ends) {
                    for (int i = 0; i < 60; i++) {
                        seed ^= seed << 13;
                        seed ^= seed >>> 7;
                        seed ^= seed << 17;
                        seed += helper(seed);
                    }
                    counter.rounds = counter.rounds + 1 + (seed == 7 ? 1 : 0);
                    if ((counter.rounds & 2047) == 0) {
                        LockSupport.parkNanos(restNs);
                    }
                }
            };
        }

        private static long helper(long seed) {
            for (int i = 0; i < 10; i++) {
                seed = (seed ^ seed >>> 29) * 6364136223846793005L;
            }
            return seed;
        }
    }

    private static final class InVirtual implements Runnable {
        private final Counter counter;

        InVirtual(Counter counter) {
            this.counter = counter;
        }

        @Override
        public void run() {
            counter.own();
            long seed = 1;
            while (!counter.ends) {
                for (int i = 0; i < 60; i++) {
                    seed ^= seed << 13;
                    seed ^= seed >>> 7;
                    seed ^= seed << 17;
                    seed += helper(seed);
                }
                counter.rounds = counter.rounds + 1 + (seed == 7 ? 1 : 0);
                if ((counter.rounds & 2047) == 0) {
                    LockSupport.parkNanos(restNs);
                }
            }
        }

        private static long helper(long seed) {
            for (int i = 0; i < 10; i++) {
                seed = (seed ^ seed >>> 29) * 6364136223846793005L;
            }
            return seed;
        }
    }

    /** While it is being initialised, a virtual thread is not unmounted. */
    private static final class Pinned {
        private static Runnable loop;

        static void run(Runnable task) {
            loop = task;
            Initialised.isDone = true;
        }

        private static final class Initialised {
            static boolean isDone;

            static {
                loop.run();
            }
        }
    }

    private static final class Calls {
        static void same(int count) {
            for (int i = 0; i < count; i++) {
                sum += SameClass.helper(i);
            }
        }
    }

    /** Calls a loop that takes three seconds, every five seconds. */
    private static final class Brief implements Runnable {
        @Override
        public void run() {
            try {
                while (true) {
                    sum += Looping.loop();
                    Thread.sleep(2_000);
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static final class Looping {
        static long loop() throws InterruptedException {
            long end = System.nanoTime() + 3_000_000_000L;
            long rounds = 0;
            while (System.nanoTime() < end) {
                Thread.sleep(50);
                rounds++;
            }
            return rounds;
        }
    }

    /** Sleeps most of the time; in a virtual thread it is seldom mounted. */
    private static final class Parking implements Runnable {
        @Override
        public void run() {
            while (true) {
                sum += helper(sum);
                pause(5);
            }
        }

        private static long helper(long seed) {
            return seed * 6364136223846793005L + 1;
        }
    }

    /** A pool of one thread, whose worker takes one task and never comes back. */
    private static final class Pool {
        private final java.util.concurrent.ExecutorService threads =
                java.util.concurrent.Executors.newFixedThreadPool(1, task -> {
                    Thread thread = new Thread(task, "pool");
                    thread.setDaemon(true);
                    return thread;
                });

        void submit(Runnable task) {
            threads.execute(task);
        }
    }

    private static final class InPool implements Runnable {
        private final Counter counter;

        InPool(Counter counter) {
            this.counter = counter;
        }

        @Override
        public void run() {
            counter.own();
            long seed = 1;
            while (!counter.ends) {
                for (int i = 0; i < 60; i++) {
                    seed ^= seed << 13;
                    seed ^= seed >>> 7;
                    seed ^= seed << 17;
                    seed += helper(seed);
                }
                counter.rounds = counter.rounds + 1 + (seed == 7 ? 1 : 0);
                if ((counter.rounds & 2047) == 0) {
                    LockSupport.parkNanos(restNs);
                }
            }
        }

        private long helper(long seed) {
            long chained = counter == null ? 1 : seed;
            for (int i = 0; i < 10; i++) {
                chained = (chained ^ chained >>> 29) * 6364136223846793005L;
            }
            return chained;
        }
    }
}
