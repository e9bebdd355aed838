package workloads;

/**
 * A recursion 18 deep whose calls do nothing but call: nanoseconds a call.
 *
 * <p>Usage: {@code Tree WARM_UP SECONDS [FLOOR]}: for how long in seconds before calls are timed, and then; the
 * library is that of {@link Leaf}.
 */
public final class Tree {
    private static final int DEPTH = 18;
    private static final long CALLS = (2L << DEPTH) - 1;

    private Tree() {}

    static int tree(int depth) {
        return depth == 0 ? 1 : tree(depth - 1) + tree(depth - 1);
    }

    private static int floorTree(int depth) {
        Leaf.enter(7);
        int leaves = depth == 0 ? 1 : floorTree(depth - 1) + floorTree(depth - 1);
        Leaf.leave(7);
        return leaves;
    }

    public static void main(String[] args) throws Exception {
        double warmUp = Double.parseDouble(args[0]);
        boolean isFloor = args.length > 2;
        if (isFloor) {
            Leaf.load(args[2]);
        }
        Times first = run(warmUp / 2, isFloor);
        Figures.ready();
        Times second = run(warmUp / 2, isFloor);
        Times times = run(Double.parseDouble(args[1]), isFloor);
        Figures.printMedian("ns_per_call", times.last(times.kept()), CALLS);
        long batches = first.count() + second.count() + times.count();
        Figures.truth("workloads.Tree.tree", CALLS * batches, 0, 0);
    }

    private static Times run(double seconds, boolean isFloor) {
        Times times = new Times(seconds);
        while (times.goOn()) {
            long begin = System.nanoTime();
            int leaves = isFloor ? floorTree(DEPTH) : tree(DEPTH);
            times.add(System.nanoTime() - begin);
            if (leaves != 1 << DEPTH) {
                throw new IllegalStateException("leaves " + leaves);
            }
        }
        return times;
    }
}
