package programs;

import java.io.File;
import java.util.concurrent.locks.LockSupport;

/** Two methods of some milliseconds each, by turns until a file is there. */
public final class Waits {
    private Waits() {}

    public static void main(String[] args) {
        File stop = new File(args[0]);
        while (!stop.exists()) {
            two();
            eight();
        }
    }

    /** Two milliseconds, or more. */
    private static void two() {
        park(2_000_000);
    }

    /** Eight milliseconds, or more. */
    private static void eight() {
        park(8_000_000);
    }

    private static void park(long ns) {
        long end = System.nanoTime() + ns;
        for (long left = ns; left > 0; left = end - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }
}
