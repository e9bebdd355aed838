package workloads;

/**
 * A recursion 18 deep whose calls do nothing but call: nanoseconds a call.
 *
 * <p>Usage: {@code Tree [BATCHES]}: of half a million calls, before they are timed and then.
 */
public final class Tree {
    private static final int DEPTH = 18;
    private static final long CALLS = (2L << DEPTH) - 1;
    private static final int BATCHES = 25;
    private static final int WARM_UPS = 10;

    private Tree() {}

    static int tree(int depth) {
        return depth == 0 ? 1 : tree(depth - 1) + tree(depth - 1);
    }

    public static void main(String[] args) throws Exception {
        int warmUps = args.length > 0 ? Integer.parseInt(args[0]) : WARM_UPS;
        int batches = args.length > 0 ? warmUps : BATCHES;
        long leaves = run(new long[warmUps]);
        Figures.ready();
        long[] times = new long[batches];
        leaves += run(times);
        Figures.printMedian("ns_per_call", times, CALLS);
        if (leaves != (long) (warmUps + batches) << DEPTH) {
            throw new IllegalStateException("leaves " + leaves);
        }
        Figures.truth("workloads.Tree.tree", CALLS * (warmUps + batches), 0, 0);
    }

    private static long run(long[] times) {
        long leaves = 0;
        for (int batch = 0; batch < times.length; batch++) {
            long begin = System.nanoTime();
            leaves += tree(DEPTH);
            times[batch] = System.nanoTime() - begin;
        }
        return leaves;
    }
}
