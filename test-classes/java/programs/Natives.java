package programs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.Deflater;

/**
 * Spends CPU time in native code, in turn its own and the JDK's, while the collector works:
 * {@code Natives LIBRARY SECONDS}, of its thread's CPU time, so that a busy machine does not matter.
 */
public final class Natives {
    private static final Path CLOCK = Path.of("/proc/thread-self/schedstat");
    private static final int KEPT = 4_000;
    private static final long TURN_NS = 20_000_000;
    private static final byte[][] KEEP = new byte[KEPT][];

    private Natives() {}

    /** Works for so long in functions that call one another: {@code natives_outer}, {@code _middle}, {@code _inner}. */
    private static native long burn(long nanos);

    private static long deflate(byte[] data) {
        long end = System.nanoTime() + TURN_NS;
        long sum = 0;
        byte[] into = new byte[2 * data.length];
        while (System.nanoTime() < end) {
            Deflater deflater = new Deflater();
            deflater.setInput(data);
            deflater.finish();
            sum += deflater.deflate(into);
            deflater.end();
        }
        return sum;
    }

    private static void allocate() {
        long end = System.nanoTime() + TURN_NS;
        for (int i = 0; System.nanoTime() < end; i++) {
            KEEP[i % KEPT] = new byte[10_000];
        }
    }

    private static long cpuNanos() throws IOException {
        return Long.parseLong(Files.readString(CLOCK).split(" ")[0]);
    }

    public static void main(String[] args) throws IOException {
        System.load(args[0]);
        long end = Long.parseLong(args[1]) * 1_000_000_000;
        byte[] data = new byte[100_000];
        for (int i = 0; i < data.length; i++) {
            data[i] = (byte) (i * i >> 7);
        }
        long sum = 0;
        while (cpuNanos() < end) {
            sum += burn(TURN_NS) + deflate(data);
            allocate();
        }
        if (sum == 0) {
            throw new IllegalStateException();
        }
    }
}
