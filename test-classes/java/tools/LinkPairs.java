package tools;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Links pairs of classes, each alone in a class loader: a class, and if the JVM accepts it, what was
 * made of it, which it then has to accept too. Prints the number of each pair where it does not, with
 * what it says, and last how many classes it accepted.
 *
 * <p>Usage: {@code LinkPairs FILE}. The file holds, for each class of each pair, length and bytes.
 */
public final class LinkPairs {
    private LinkPairs() {}

    private static final class Loader extends ClassLoader {
        Class<?> define(byte[] bytes) {
            return defineClass(null, bytes, 0, bytes.length);
        }
    }

    public static void main(String[] args) throws IOException {
        ByteBuffer in = ByteBuffer.wrap(Files.readAllBytes(Path.of(args[0])));
        int accepted = 0;
        for (int pair = 0; in.hasRemaining(); pair++) {
            byte[] original = next(in);
            byte[] rewritten = next(in);
            if (link(original) == null) {
                accepted++;
                String refused = link(rewritten);
                // Classes that were loaded meanwhile can make the JVM refuse the original too.
                if (refused != null && link(original) == null) {
                    System.out.println("refused " + pair + " " + refused.split("\n")[0]);
                }
            }
        }
        System.out.println("accepted " + accepted);
    }

    private static byte[] next(ByteBuffer in) {
        byte[] bytes = new byte[in.getInt()];
        in.get(bytes);
        return bytes;
    }

    /** What the JVM says against a class, or null. */
    private static String link(byte[] bytes) {
        try {
            // Asking for constructors links the class, and does not initialize it.
            new Loader().define(bytes).getDeclaredConstructors();
            return null;
        } catch (LinkageError | RuntimeException e) {
            return e.toString();
        }
    }
}
