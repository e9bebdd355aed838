package truth;

import java.util.ArrayList;
import java.util.List;

/** Several threads at once, in the same methods. */
final class Threads {
    private Threads() {}

    static void run(List<String> names, int rounds) throws InterruptedException {
        Count.call("truth.Threads run (Ljava/util/List;I)V");
        List<Thread> threads = new ArrayList<>();
        for (String name : names) {
            Thread thread = new Thread(new Work(rounds), name);
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        // Threads that live for one call.
        for (int i = 0; i < 200; i++) {
            Thread thread = new Thread(new Work(1), "short-" + i);
            thread.start();
            thread.join();
        }
    }

    private static final class Work implements Runnable {
        private final int rounds;

        Work(int rounds) {
            Count.call("truth.Threads$Work <init> (I)V");
            this.rounds = rounds;
        }

        @Override
        public void run() {
            Count.call("truth.Threads$Work run ()V");
            for (int i = 0; i < rounds; i++) {
                try {
                    step(i);
                } catch (IllegalArgumentException e) {
                    Calls.fib(2);
                }
            }
            pause();
        }

        private static void step(int i) {
            Count.call("truth.Threads$Work step (I)V");
            if (i % 10 == 9) {
                Count.thrown("truth.Threads$Work step (I)V");
                throw new IllegalArgumentException();
            }
        }

        /** Long enough to be recorded, so that the thread has a name in the log. */
        private static void pause() {
            Count.call("truth.Threads$Work pause ()V");
            try {
                Thread.sleep(2);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        }
    }
}
