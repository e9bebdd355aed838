package programs;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Selector;

/**
 * Makes calls of known length, and sets its own clocks by the file that the library {@code set_clock}
 * reads. It does what it is told on its stdin, a line each: {@code calls N} makes N calls of 100 ms and
 * says how long they took by the clock, in nanoseconds; {@code hold SECONDS} says what time it is, in
 * milliseconds, and holds CLOCK_MONOTONIC during a call; {@code ahead NS} sets it ahead. It ends with its
 * stdin.
 */
public final class Jumps {
    private static final Selector NOTHING = nothing();

    private Jumps() {}

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "calls":
                    System.out.println(calls(Integer.parseInt(words[1])));
                    break;
                case "hold":
                    System.out.println(System.currentTimeMillis());
                    hold(args[0], Long.parseLong(words[1]));
                    System.out.println("held");
                    break;
                case "ahead":
                    ahead(args[0], Long.parseLong(words[1]));
                    System.out.println("ahead");
                    break;
                default:
                    System.out.println("ready");
            }
        }
    }

    private static long calls(int count) throws IOException {
        long nanos = 0;
        for (int i = 0; i < count; i++) {
            long start = System.nanoTime();
            tenth();
            nanos += System.nanoTime() - start;
        }
        return nanos;
    }

    private static void tenth() throws IOException {
        long end = System.nanoTime() + 100_000_000;
        for (long left = 100_000_000; left > 0; left = end - System.nanoTime()) {
            rest(left / 1_000_000 + 1);
        }
    }

    /** The time of day goes on meanwhile, and so does the processor's counter. */
    private static void hold(String file, long seconds) throws IOException {
        long end = System.currentTimeMillis() + 1_000 * seconds;
        set(file, 8, 1);
        for (long left = 1_000 * seconds; left > 0; left = end - System.currentTimeMillis()) {
            rest(left);
        }
        set(file, 8, 0);
    }

    /** Takes so long by the kernel's clock. A sleep would end by this JVM's own clock, which it sets. */
    private static void rest(long ms) throws IOException {
        NOTHING.select(ms);
    }

    private static Selector nothing() {
        try {
            return Selector.open();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void ahead(String file, long nanos) throws IOException {
        set(file, 16, nanos);
    }

    private static void set(String file, int at, long number) throws IOException {
        try (RandomAccessFile out = new RandomAccessFile(file, "rw")) {
            out.seek(at);
            out.write(ByteBuffer.allocate(8).order(ByteOrder.nativeOrder()).putLong(number).array());
        }
    }
}
