package truth;

/** Exceptions that are thrown, caught inside, passed on, rethrown and replaced. */
final class Exceptions {
    Exceptions() {
        Count.call("truth.Exceptions <init> ()V");
    }

    /** Without a stack trace, so that the programs test the profiler and not the JVM. */
    static final class Failure extends RuntimeException {
        Failure(String message) {
            super(message, null, false, false);
            Count.call("truth.Exceptions$Failure <init> (Ljava/lang/String;)V");
        }
    }

    void round(int i) {
        Count.call("truth.Exceptions round (I)V");
        caughtInside(i);
        try {
            through(i, 5);
        } catch (Failure e) {
            afterwards();
        }
        try {
            withFinally(i);
        } catch (Failure e) {
            afterwards();
        }
        try {
            replaced();
        } catch (IllegalStateException e) {
            afterwards();
        }
        try {
            guarded(i);
        } catch (Failure e) {
            afterwards();
        }
        try {
            fromLibrary(i);
        } catch (ArithmeticException | NumberFormatException e) {
            afterwards();
        }
        nested(i);
        swallowed(i);
        try {
            monitor(i);
        } catch (Failure e) {
            afterwards();
        }
        resources(i);
    }

    private static void caughtInside(int i) {
        Count.call("truth.Exceptions caughtInside (I)V");
        try {
            // An athrow that the method itself catches is not an exit.
            if (i % 2 == 0) {
                throw new Failure("inside");
            }
            fail();
        } catch (Failure e) {
            afterwards();
        }
    }

    private static void fail() {
        Count.call("truth.Exceptions fail ()V");
        Count.thrown("truth.Exceptions fail ()V");
        throw new Failure("fail");
    }

    /** Passes an exception on through several frames of its own. */
    private static int through(int i, int depth) {
        Count.call("truth.Exceptions through (II)I");
        boolean fails = i % 3 != 0;
        if (depth == 0) {
            if (fails) {
                Count.thrown("truth.Exceptions through (II)I");
                throw new Failure("deep");
            }
            return i;
        }
        if (fails) {
            Count.thrown("truth.Exceptions through (II)I");
        }
        return through(i, depth - 1) + 1;
    }

    private static int withFinally(int i) {
        Count.call("truth.Exceptions withFinally (I)I");
        try {
            if (i % 4 == 0) {
                Count.thrown("truth.Exceptions withFinally (I)I");
                fail();
            }
            return i;
        } finally {
            // Runs on both ways out, and the exception is thrown again behind it.
            afterwards();
        }
    }

    private static void replaced() {
        Count.call("truth.Exceptions replaced ()V");
        try {
            fail();
        } catch (Failure e) {
            Count.thrown("truth.Exceptions replaced ()V");
            throw new IllegalStateException("replaced", e);
        }
    }

    private synchronized void guarded(int i) {
        Count.call("truth.Exceptions guarded (I)V");
        if (i % 2 == 1) {
            Count.thrown("truth.Exceptions guarded (I)V");
            fail();
        }
    }

    /** The exception comes from the JVM or from a class without probes. */
    private static int fromLibrary(int i) {
        Count.call("truth.Exceptions fromLibrary (I)I");
        if (i % 2 == 0) {
            Count.thrown("truth.Exceptions fromLibrary (I)I");
        }
        return i % 4 == 0 ? i / (i % 2) : Integer.parseInt(i % 2 == 0 ? "no number" : "1");
    }

    private static void nested(int i) {
        Count.call("truth.Exceptions nested (I)V");
        try {
            try {
                through(i, 2);
            } catch (IllegalStateException e) {
                throw new AssertionError("not this one");
            } finally {
                afterwards();
            }
        } catch (Failure e) {
            try {
                fail();
            } catch (Failure again) {
                afterwards();
            }
        }
    }

    /** A return in finally swallows the exception: the call returns. */
    @SuppressWarnings("finally")
    private static int swallowed(int i) {
        Count.call("truth.Exceptions swallowed (I)I");
        try {
            fail();
            return 1;
        } finally {
            return 2;
        }
    }

    /** Javac protects the exit from the monitor with a handler that protects itself. */
    private void monitor(int i) {
        Count.call("truth.Exceptions monitor (I)V");
        synchronized (this) {
            if (i % 5 == 0) {
                Count.thrown("truth.Exceptions monitor (I)V");
                fail();
            }
            afterwards();
        }
    }

    private static void resources(int i) {
        Count.call("truth.Exceptions resources (I)V");
        try (Resource a = new Resource(false); Resource b = new Resource(i % 2 == 0)) {
            if (i % 3 == 0) {
                fail();
            }
        } catch (Failure e) {
            afterwards();
        }
    }

    private static final class Resource implements AutoCloseable {
        private final boolean fails;

        Resource(boolean fails) {
            Count.call("truth.Exceptions$Resource <init> (Z)V");
            this.fails = fails;
        }

        @Override
        public void close() {
            Count.call("truth.Exceptions$Resource close ()V");
            if (fails) {
                Count.thrown("truth.Exceptions$Resource close ()V");
                throw new Failure("close");
            }
        }
    }

    private static void afterwards() {
        Count.call("truth.Exceptions afterwards ()V");
    }
}
