package programs;

/** A class that is loaded again and again, by {@link Faults}. */
public final class Deployed {
    private Deployed() {}

    public static void call() {
        for (int i = 0; i < 10; i++) {
            one();
            two();
        }
    }

    private static void one() {}

    private static void two() {}
}
