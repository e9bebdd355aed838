package changing;

import truth.Count;

/** What {@code before/Steps.java} becomes: other calls, other handlers, other lines. */
public final class Steps {
    private Steps() {}

    private static int leap(int i) {
        Count.call("changing.Steps leap (I)I");
        int way = 0;
        for (int n = 0; n < i % 3; n++) {
            way += 100;
        }
        return way + (i == 0 ? 0 : leap(i - 1));
    }

    private static int step(int i) {
        Count.call("changing.Steps step (I)I");
        if (i % 4 == 3) {
            Count.thrown("changing.Steps step (I)I");
            throw new IllegalStateException("step");
        }
        return 10;
    }

    /** Goes on after an exception. */
    public static int walk(int steps, Runnable halfway) {
        Count.call("changing.Steps walk (ILjava/lang/Runnable;)I");
        int way = 0;
        for (int i = 0; i < steps; i++) {
            if (i == steps / 2) {
                halfway.run();
            }
            try {
                way += step(i) + step(i + 1) + leap(2);
            } catch (IllegalStateException e) {
                way += leap(i % 2);
            }
        }
        return way;
    }
}
