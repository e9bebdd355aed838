package truth;

/**
 * Recursions until the stack is full, and what is called afterwards. A call counts itself without
 * calling anything: that could overflow too.
 */
final class Overflow {
    private static int selves;
    private static int evens;
    private static int odds;
    private static int catching;
    private static int caught;
    private static int runs;
    private static int deepest;
    private static long mixed;
    private static long kept;

    private Overflow() {}

    static void run(int rounds) throws InterruptedException {
        Count.call("truth.Overflow run (I)V");
        for (int i = 0; i < rounds; i++) {
            runThread(new Rounds());
            // A thread whose outermost instrumented call is the recursion itself.
            runThread(new Deep());
        }
        // The error passes through every call of these.
        Count.add("truth.Overflow self (I)I", selves, selves);
        Count.add("truth.Overflow even (I)V", evens, evens);
        Count.add("truth.Overflow odd (I)V", odds, odds);
        Count.add("truth.Overflow catching (I)I", catching, catching);
        Count.add("truth.Overflow$Deep run ()V", runs, runs);
        Count.add("truth.Overflow$Deep <init> ()V", rounds, 0);
        Count.add("truth.Overflow$Rounds <init> ()V", rounds, 0);
        if (caught != catching) {
            throw new AssertionError(catching + " calls, but the error was caught " + caught + " times");
        }
        if (deepest > 60_000) {
            throw new AssertionError(deepest + " calls deep, beyond what the agent follows");
        }
        // For the next run.
        selves = evens = odds = catching = caught = runs = deepest = 0;
    }

    /**
     * Runs a thread with a stack too small for more calls than the agent follows. Each has a value to
     * keep meanwhile: calls without one, compiled into one another, take four bytes.
     */
    private static void runThread(Runnable runnable) throws InterruptedException {
        Count.call("truth.Overflow runThread (Ljava/lang/Runnable;)V");
        Thread thread = new Thread(null, runnable, "overflow", 384 << 10);
        thread.setUncaughtExceptionHandler((t, error) ->
                Count.call("truth.Overflow lambda$runThread$0 (Ljava/lang/Thread;Ljava/lang/Throwable;)V"));
        thread.start();
        thread.join();
    }

    private static final class Rounds implements Runnable {
        @Override
        public void run() {
            Count.call("truth.Overflow$Rounds run ()V");
            round();
        }
    }

    private static void round() {
        Count.call("truth.Overflow round ()V");
        try {
            self(0);
        } catch (StackOverflowError e) {
            check(e);
        }
        try {
            even(0);
        } catch (StackOverflowError e) {
            check(e);
        }
        try {
            catching(0);
        } catch (StackOverflowError e) {
            check(e);
        }
    }

    /** The error shows the program's own methods and nothing else. */
    private static void check(StackOverflowError error) {
        Count.call("truth.Overflow check (Ljava/lang/StackOverflowError;)V");
        if (error.getMessage() != null || error.getStackTrace().length < 1000) {
            throw new AssertionError("not the JVM's own error", error);
        }
        for (StackTraceElement frame : error.getStackTrace()) {
            if (!frame.getClassName().equals("truth.Overflow")) {
                throw new AssertionError(frame.toString(), error);
            }
        }
    }

    private static int self(int n) {
        selves++;
        deepest = n > deepest ? n : deepest;
        long own = mixed = mixed * 6364136223846793005L + 1442695040888963407L;
        int result = self(n + 1) + 1;
        kept ^= own;
        return result;
    }

    private static void even(int n) {
        evens++;
        deepest = n > deepest ? n : deepest;
        long own = mixed = mixed * 6364136223846793005L + 1442695040888963407L;
        odd(n + 1);
        kept ^= own;
    }

    private static void odd(int n) {
        odds++;
        deepest = n > deepest ? n : deepest;
        long own = mixed = mixed * 6364136223846793005L + 1442695040888963407L;
        even(n + 1);
        kept ^= own;
    }

    private static int catching(int n) {
        catching++;
        deepest = n > deepest ? n : deepest;
        long own = mixed = mixed * 6364136223846793005L + 1442695040888963407L;
        try {
            int result = catching(n + 1) + 1;
            kept ^= own;
            return result;
        } catch (StackOverflowError e) {
            caught++;
            throw e;
        }
    }

    private static final class Deep implements Runnable {
        private int n;

        @Override
        public void run() {
            runs++;
            long own = mixed = mixed * 6364136223846793005L + 1442695040888963407L;
            n++;
            deepest = n > deepest ? n : deepest;
            run();
            kept ^= own;
        }
    }
}
