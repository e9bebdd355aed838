package programs;

import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A thread that is in the kernel for a known part of its CPU time: {@code InKernel SECONDS} reads zeros and computes,
 * and prints {@code user TICKS} and {@code system TICKS}, the thread's clocks, and {@code read CPU_NS} and
 * {@code all CPU_NS}.
 */
public final class InKernel {
    private static final int BYTES = 64 << 10;
    private static volatile double sum;

    private InKernel() {}

    private static double compute() {
        double x = 1;
        for (int i = 0; i < 24_000_000; i++) x = x * 1.0000001 + 1e-9;
        return x;
    }

    private static void read(FileChannel zeros, ByteBuffer into) throws Exception {
        for (int i = 0; i < 30_000; i++) {
            into.clear();
            zeros.read(into);
        }
    }

    private static long cpuNs() throws Exception {
        String line = Files.readString(Path.of("/proc/thread-self/schedstat"));
        return Long.parseLong(line.substring(0, line.indexOf(' ')));
    }

    /** The CPU time of the calling thread outside of the kernel and in it, in ticks. */
    private static long[] ticks() throws Exception {
        String line = Files.readString(Path.of("/proc/thread-self/stat"));
        String[] words = line.substring(line.lastIndexOf(')') + 2).split(" ");
        return new long[] {Long.parseLong(words[11]), Long.parseLong(words[12])};
    }

    private static void spend(double seconds) throws Exception {
        ByteBuffer into = ByteBuffer.allocateDirect(BYTES);
        try (FileChannel zeros = FileChannel.open(Path.of("/dev/zero"))) {
            long[] ticks = ticks();
            long began = cpuNs();
            long read = 0;
            long before = began;
            while (before - began < seconds * 1e9) {
                sum += compute();
                long computed = cpuNs();
                read(zeros, into);
                before = cpuNs();
                read += before - computed;
            }
            long[] end = ticks();
            System.out.println("user " + (end[0] - ticks[0]));
            System.out.println("system " + (end[1] - ticks[1]));
            System.out.println("read " + read);
            System.out.println("all " + (before - began));
        }
    }

    public static void main(String[] args) throws Exception {
        double seconds = Double.parseDouble(args[0]);
        Thread thread = new Thread(() -> {
            try {
                spend(seconds);
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }, "reader");
        thread.start();
        thread.join();
    }
}
