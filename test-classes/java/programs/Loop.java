package programs;

import java.nio.file.Files;
import java.nio.file.Path;

/**
 * One loop in one call, compiled after a while and never left, that calls a small method. It ends
 * when a file appears, which it looks for once in a million calls.
 *
 * <p>Usage: {@code Loop FILE}
 */
public final class Loop {
    private static long sink;

    private Loop() {}

    public static void main(String[] args) {
        Path file = Path.of(args[0]);
        for (long i = 0; ; i++) {
            sink += work(i);
            if (i % 1_000_000 == 0 && Files.exists(file)) {
                break;
            }
        }
        System.out.println(sink != 0);
    }

    private static long work(long i) {
        return i ^ (i << 13);
    }
}
