package workloads;

/**
 * A recursion 18 deep whose calls do nothing but call: nanoseconds a call.
 *
 * <p>Usage: {@code Tree WARM_UP SECONDS}: for how long in seconds before calls are timed, and then.
 */
public final class Tree {
    private static final int DEPTH = 18;
    private static final long CALLS = (2L << DEPTH) - 1;

    private Tree() {}

    static int tree(int depth) {
        return depth == 0 ? 1 : tree(depth - 1) + tree(depth - 1);
    }

    public static void main(String[] args) throws Exception {
        double warmUp = Double.parseDouble(args[0]);
        long batches = run(warmUp).count();
        if (Figures.ready()) {
            batches += run(warmUp).count();
        }
        Times times = run(Double.parseDouble(args[1]));
        Figures.printMedian("ns_per_call", times.all(), CALLS);
        Figures.truth("workloads.Tree.tree", CALLS * (batches + times.count()), 0, 0);
    }

    private static Times run(double seconds) {
        Times times = new Times(seconds);
        while (times.goOn()) {
            long begin = System.nanoTime();
            int leaves = tree(DEPTH);
            times.add(System.nanoTime() - begin);
            if (leaves != 1 << DEPTH) {
                throw new IllegalStateException("leaves " + leaves);
            }
        }
        return times;
    }
}
