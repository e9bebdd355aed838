package programs;

/**
 * A thread works in a compiled method with two others inlined, while the class that makes it invalid is loaded: its
 * frame stays on the stack until the callee returns. {@code Deoptimized MILLIS} prints
 * {@code loaded} in between.
 */
public final class Deoptimized {
    private static volatile double sum;

    private Deoptimized() {}

    static class Base {
        double leaf(long millis) {
            return spin(millis);
        }
    }

    static final class Derived extends Base {
        @Override
        double leaf(long millis) {
            return 2 * spin(millis);
        }
    }

    /** The tests keep the compilers from inlining it. */
    static double spin(long millis) {
        double x = 1;
        long end = System.nanoTime() + millis * 1_000_000;
        do {
            for (int i = 0; i < 1_000; i++) x = x * 1.0000001 + 1e-9;
        } while (System.nanoTime() < end);
        return x;
    }

    static double middle(Base base, long millis) {
        return base.leaf(millis) + 1;
    }

    static double outer(Base base, long millis) {
        return middle(base, millis) + 1;
    }

    private static void work(Base base, long millis) {
        sum += outer(base, millis);
    }

    public static void main(String[] args) throws Exception {
        long millis = Long.parseLong(args[0]);
        Base base = new Base();
        long end = System.nanoTime() + 1_000_000_000;
        while (System.nanoTime() < end) work(base, 0);
        Thread spins = new Thread(() -> work(base, millis), "spins");
        spins.start();
        Thread.sleep(millis / 4);
        sum += new Derived().leaf(0);
        System.out.println("loaded");
        spins.join();
    }
}
