package programs;

/**
 * Recursions until the stack is full, in methods with handlers that call nothing: each call's handler must run.
 *
 * <p>Usage: {@code Overflowing SECONDS}. Prints the methods of which a handler did not run, and how many rounds there
 * were.
 */
public final class Overflowing {
    private static final String[] NAMES = {"overflow", "error", "throwable", "last", "nested", "monitor"};
    private static int calls;
    private static int handled;
    private static final IllegalStateException FAILED = new IllegalStateException();
    private static final StackOverflowError FULL = new StackOverflowError();
    private static long mixed;
    private static long kept;

    private Overflowing() {}

    public static void main(String[] args) throws Exception {
        long end = System.nanoTime() + Long.parseLong(args[0]) * 1_000_000_000;
        int rounds = 0;
        for (; System.nanoTime() < end; rounds++) {
            for (int method = 0; method < NAMES.length; method++) {
                int which = method;
                int below = rounds % 30;
                Thread thread = new Thread(null, () -> runBelow(below, which), "overflowing", 256 << 10);
                thread.start();
                thread.join();
                if (calls != handled || calls < 100) {
                    System.out.println(NAMES[method] + ": " + calls + " calls, " + handled + " handled");
                }
            }
        }
        System.out.println(rounds + " rounds");
    }

    /** Calls before the recursion make it end at another place of the stack. */
    private static void runBelow(int calls, int method) {
        if (calls > 0) {
            runBelow(calls - 1, method);
        } else {
            run(method);
        }
    }

    private static void run(int method) {
        calls = handled = 0;
        try {
            switch (method) {
                case 0:
                    overflow();
                    break;
                case 1:
                    error();
                    break;
                case 2:
                    throwable();
                    break;
                case 3:
                    last();
                    break;
                case 4:
                    nested();
                    break;
                default:
                    monitor(new Object());
                    break;
            }
        } catch (StackOverflowError e) {
            return;
        }
        throw new AssertionError("no error");
    }

    /** Without a value to keep, compiled calls would take a few bytes each. */
    private static void overflow() {
        long own = mixed = mixed * 6364136223846793005L + 1442695040888963407L;
        calls++;
        try {
            overflow();
            kept ^= own;
        } catch (StackOverflowError e) {
            handled++;
            throw e;
        }
    }

    private static void error() {
        long own = mixed = mixed * 6364136223846793005L + 1442695040888963407L;
        calls++;
        try {
            error();
            kept ^= own;
        } catch (Error e) {
            handled++;
            throw e;
        }
    }

    private static void throwable() {
        long own = mixed = mixed * 6364136223846793005L + 1442695040888963407L;
        calls++;
        try {
            throwable();
            kept ^= own;
        } catch (Throwable e) {
            handled++;
            throw e;
        }
    }

    private static void last() {
        long own = mixed = mixed * 6364136223846793005L + 1442695040888963407L;
        calls++;
        try {
            last();
            kept ^= own;
        } finally {
            handled++;
        }
    }

    /** The inner handler catches no error of its probe, the outer one does. */
    private static void nested() {
        long own = mixed = mixed * 6364136223846793005L + 1442695040888963407L;
        calls++;
        try {
            try {
                instead();
            } catch (IllegalStateException e) {
                kept ^= own;
            }
        } finally {
            handled++;
        }
        throw FULL;
    }

    private static void instead() {
        try {
            nested();
        } catch (StackOverflowError e) {
            throw FAILED;
        }
    }

    private static void monitor(Object lock) {
        long own = mixed = mixed * 6364136223846793005L + 1442695040888963407L;
        calls++;
        try {
            synchronized (lock) {
                monitor(lock);
            }
            kept ^= own;
        } finally {
            handled++;
        }
    }
}
