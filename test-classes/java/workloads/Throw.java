package workloads;

/**
 * An exception through five frames: nanoseconds for all of it. It was made beforehand, or is new each time, with a
 * stack or {@code bare} without one.
 *
 * <p>Usage: {@code Throw SECONDS [new|bare]}
 */
public final class Throw {
    private static final int CALLS = 5_000;
    private static final RuntimeException EXCEPTION = new RuntimeException("made beforehand");
    private static boolean isNew;
    private static boolean isBare;

    private Throw() {}

    private static final class Bare extends RuntimeException {
        private static final long serialVersionUID = 1;

        Bare() {
            super("bare", null, false, false);
        }
    }

    static int first(int x) {
        return second(x + 1) + 1;
    }

    static int second(int x) {
        return third(x + 1) + 1;
    }

    static int third(int x) {
        return fourth(x + 1) + 1;
    }

    static int fourth(int x) {
        return fifth(x + 1) + 1;
    }

    static int fifth(int x) {
        if (x > 0) {
            if (isNew) {
                throw isBare ? new Bare() : new RuntimeException("new");
            }
            throw EXCEPTION;
        }
        return x;
    }

    public static void main(String[] args) throws Exception {
        double seconds = Double.parseDouble(args[0]);
        isNew = args.length > 1;
        isBare = isNew && args[1].equals("bare");
        Times first = run(seconds / 2);
        Figures.ready();
        Times second = run(seconds / 2);
        Times times = run(seconds);
        Figures.printMedian("ns_per_exception", times.last(times.kept()), CALLS);
        long caught = (first.count() + second.count() + times.count()) * CALLS;
        for (String method : new String[] {"first", "second", "third", "fourth", "fifth"}) {
            Figures.truth("workloads.Throw." + method, caught, caught, 0);
        }
    }

    private static Times run(double seconds) {
        Times times = new Times(seconds);
        while (times.goOn()) {
            long begin = System.nanoTime();
            int caught = exceptions();
            times.add(System.nanoTime() - begin);
            if (caught != CALLS) {
                throw new IllegalStateException("caught " + caught);
            }
        }
        return times;
    }

    private static int exceptions() {
        int caught = 0;
        for (int i = 0; i < CALLS; i++) {
            try {
                first(i);
            } catch (RuntimeException e) {
                caught++;
            }
        }
        return caught;
    }
}
