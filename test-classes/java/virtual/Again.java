package virtual;

import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Runs {@link Main} again and again until a file appears, and prints how often that was.
 *
 * <p>Usage: {@code Again COUNTS THREADS FILE}
 */
public final class Again {
    private Again() {}

    public static void main(String[] args) throws Exception {
        int rounds = 0;
        do {
            Main.main(args);
            rounds++;
        } while (!Files.exists(Path.of(args[2])));
        System.out.println(rounds);
    }
}
