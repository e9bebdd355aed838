package programs;

import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Two threads spend known shares of their CPU time in ten methods: {@code Shares SECONDS} prints
 * {@code THREAD METHOD CPU_NS} for each, by the threads' own clocks, and {@code THREAD all CPU_NS}; also
 * {@code process start CPU_NS} and {@code process end CPU_NS}, in steps of ten milliseconds.
 */
public final class Shares {
    private static final Path CLOCK = Path.of("/proc/thread-self/schedstat");
    private static final int UNIT = 300_000;
    private static volatile double sum;

    private Shares() {}

    private interface Part {
        double of(int count);
    }

    private static final int[] UNITS = {30, 20, 15, 10, 8, 6, 5, 3, 2, 1};
    private static final Part[] PARTS = {
        Shares::m0, Shares::m1, Shares::m2, Shares::m3, Shares::m4,
        Shares::m5, Shares::m6, Shares::m7, Shares::m8, Shares::m9
    };

    private static double m0(int count) {
        double x = 1;
        for (int i = 0; i < count; i++) x = x * 1.0000001 + 1e-9;
        return x;
    }

    private static double m1(int count) {
        double x = 1;
        for (int i = 0; i < count; i++) x = x * 1.0000001 + 2e-9;
        return x;
    }

    private static double m2(int count) {
        double x = 1;
        for (int i = 0; i < count; i++) x = x * 1.0000001 + 3e-9;
        return x;
    }

    private static double m3(int count) {
        double x = 1;
        for (int i = 0; i < count; i++) x = x * 1.0000001 + 4e-9;
        return x;
    }

    private static double m4(int count) {
        double x = 1;
        for (int i = 0; i < count; i++) x = x * 1.0000001 + 5e-9;
        return x;
    }

    private static double m5(int count) {
        double x = 1;
        for (int i = 0; i < count; i++) x = x * 1.0000001 + 6e-9;
        return x;
    }

    private static double m6(int count) {
        double x = 1;
        for (int i = 0; i < count; i++) x = x * 1.0000001 + 7e-9;
        return x;
    }

    private static double m7(int count) {
        double x = 1;
        for (int i = 0; i < count; i++) x = x * 1.0000001 + 8e-9;
        return x;
    }

    private static double m8(int count) {
        double x = 1;
        for (int i = 0; i < count; i++) x = x * 1.0000001 + 9e-9;
        return x;
    }

    private static double m9(int count) {
        double x = 1;
        for (int i = 0; i < count; i++) x = x * 1.0000001 + 11e-9;
        return x;
    }

    /** The CPU time of the calling thread, in nanoseconds. */
    private static long cpuNs() throws Exception {
        String line = Files.readString(CLOCK);
        return Long.parseLong(line.substring(0, line.indexOf(' ')));
    }

    /** The CPU time of the process, in nanoseconds. */
    private static long processCpuNs() throws Exception {
        String line = Files.readString(Path.of("/proc/self/stat"));
        String[] words = line.substring(line.lastIndexOf(')') + 2).split(" ");
        return (Long.parseLong(words[11]) + Long.parseLong(words[12])) * 10_000_000;
    }

    private static void spend(double seconds) throws Exception {
        long[] spent = new long[PARTS.length];
        long began = cpuNs();
        long before = began;
        while (before - began < seconds * 1e9) {
            for (int part = 0; part < PARTS.length; part++) {
                sum += PARTS[part].of(UNITS[part] * UNIT);
                long now = cpuNs();
                spent[part] += now - before;
                before = now;
            }
        }
        StringBuilder lines = new StringBuilder();
        String thread = Thread.currentThread().getName();
        for (int part = 0; part < PARTS.length; part++) {
            lines.append(thread + " m" + part + " " + spent[part] + "\n");
        }
        lines.append(thread + " all " + (before - began) + "\n");
        System.out.print(lines);
    }

    public static void main(String[] args) throws Exception {
        double seconds = Double.parseDouble(args[0]);
        long start = processCpuNs();
        Thread second = new Thread(() -> {
            try {
                spend(seconds);
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }, "second");
        second.start();
        spend(seconds);
        second.join();
        System.out.println("process start " + start + "\nprocess end " + processCpuNs());
    }
}
