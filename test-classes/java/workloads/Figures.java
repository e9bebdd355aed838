package workloads;

import java.util.Arrays;
import java.util.Locale;

/** What workloads print: figures, and how often their measured methods were really called. */
final class Figures {
    private Figures() {}

    /** A line {@code figure NAME VALUE}. */
    static void print(String name, double value) {
        System.out.println(String.format(Locale.ROOT, "figure %s %.3f", name, value));
    }

    /**
     * The median of times in nanoseconds, by call, and what one in a hundred is below: what it takes while
     * nobody else uses the processor's core.
     */
    static void printMedian(String name, long[] times, long calls) {
        long[] sorted = times.clone();
        Arrays.sort(sorted);
        print(name, (double) sorted[sorted.length / 2] / calls);
        print(name + "_quickest", (double) sorted[sorted.length / 100] / calls);
    }

    /**
     * A line {@code truth METHOD CALLS THROWS SLOW}: slow are those that took a millisecond or more, -1 if
     * nobody knows, for the kernel may have taken the processor away from any of them.
     */
    static void truth(String method, long calls, long exceptions, long slow) {
        System.out.println("truth " + method + " " + calls + " " + exceptions + " " + slow);
    }

    /**
     * Says that the first warm-up is over, and waits for a line on stdin if it is to. The second one follows:
     * what was changed meanwhile is compiled anew in it.
     */
    static void ready() throws java.io.IOException {
        if (Boolean.getBoolean("workloads.wait")) {
            System.out.println("ready");
            System.out.flush();
            System.in.read();
        }
    }
}
