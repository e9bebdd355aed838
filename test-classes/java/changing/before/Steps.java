package changing;

import truth.Count;

/** Is redefined as {@code after/Steps.java} while it runs. */
public final class Steps {
    private Steps() {}

    /** An exception of a step leaves it. */
    public static int walk(int steps, Runnable halfway) {
        Count.call("changing.Steps walk (ILjava/lang/Runnable;)I");
        int way = 0;
        for (int i = 0; i < steps; i++) {
            if (i == steps / 2) {
                halfway.run();
            }
            try {
                way += step(i);
            } catch (IllegalStateException e) {
                Count.thrown("changing.Steps walk (ILjava/lang/Runnable;)I");
                throw e;
            }
        }
        return way;
    }

    private static int step(int i) {
        Count.call("changing.Steps step (I)I");
        return 1;
    }

    private static int leap(int i) {
        Count.call("changing.Steps leap (I)I");
        return 0;
    }
}
