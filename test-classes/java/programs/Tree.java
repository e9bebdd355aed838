package programs;

/** Calls a tiny method as often as it can, for some seconds: {@code Tree SECONDS}. */
public final class Tree {
    private static volatile int sum;

    private Tree() {}

    private static int tree(int depth) {
        return depth == 0 ? 1 : tree(depth - 1) + tree(depth - 1);
    }

    public static void main(String[] args) throws Exception {
        Thread thread = new Thread(() -> {
            long end = System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9);
            while (System.nanoTime() < end) {
                sum += tree(14);
            }
        }, "trees");
        thread.start();
        thread.join();
    }
}
