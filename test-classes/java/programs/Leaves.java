package programs;

/** Methods in which no time can go by, and methods that are near to that. Each is called at least once. */
public final class Leaves {
    private static final int[] NUMBERS = {3, 1, 2};
    private static long sum;
    private final int number;
    private volatile int state;

    private Leaves(int number) {
        this.number = number;
    }

    public static void main(String[] args) {
        Leaves leaves = new Leaves(NUMBERS.length);
        sum += leaves.leafReads() + leafBranches(4) + leafSwitches(2) + leafIndexes(1) + leafCatches(9);
        leaves.leafWrites(7);
        leafNothing();
        sum += leafClass() == Leaves.class ? leafCasts("three") : 0;
        try {
            leafThrows(null);
        } catch (NullPointerException e) {
            sum++;
        }
        sum += otherCalls(3) + otherLoops(3) + otherCreates() + otherArrays(2) + otherLocks(leaves);
        sum += leaves.otherSynchronized() + otherConcatenates(3).length();
        otherLambda().run();
        System.out.println(sum);
    }

    private int leafReads() {
        return number * 31 + state;
    }

    private void leafWrites(int state) {
        this.state = state;
        sum = state;
    }

    private static int leafBranches(int x) {
        if (x > 3) {
            return x % 2 == 0 ? x / 2 : 3 * x + 1;
        }
        return -x;
    }

    private static int leafSwitches(int x) {
        switch (x) {
            case 1:
                return 10;
            case 2:
                x += 5;
                break;
            case 1_000_000:
                return 30;
            default:
                return 40;
        }
        return x;
    }

    private static int leafIndexes(int i) {
        return NUMBERS[i] << 2;
    }

    /** The handler stands behind what it covers. */
    private static int leafCatches(int i) {
        try {
            return NUMBERS[i];
        } catch (ArrayIndexOutOfBoundsException e) {
            return -1;
        }
    }

    private static void leafNothing() {}

    private static Class<?> leafClass() {
        return Leaves.class;
    }

    private static int leafCasts(Object o) {
        return o instanceof String && (String) o == "three" ? 3 : 4;
    }

    private static int leafThrows(int[] none) {
        return none[0];
    }

    private static int otherCalls(int x) {
        return Math.abs(x);
    }

    private static int otherLoops(int x) {
        int sum = 0;
        for (int i = 0; i < x; i++) {
            sum += i;
        }
        return sum;
    }

    private static int otherCreates() {
        return new Object() == null ? 1 : 2;
    }

    private static int otherArrays(int x) {
        return new long[x][x] == (Object) new int[x] ? 1 : 2;
    }

    private static int otherLocks(Object lock) {
        synchronized (lock) {
            return 1;
        }
    }

    private synchronized int otherSynchronized() {
        return 1;
    }

    private static String otherConcatenates(int x) {
        return "x" + x;
    }

    private static Runnable otherLambda() {
        return () -> sum++;
    }
}
