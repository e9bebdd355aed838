package tools;

import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.URI;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Writes all classes of the running JDK's image to one file: for each its length, four bytes, and
 * its bytes.
 *
 * <p>Usage: {@code DumpClasses FILE}
 */
public final class DumpClasses {
    private DumpClasses() {}

    public static void main(String[] args) throws IOException {
        Path modules = FileSystems.getFileSystem(URI.create("jrt:/")).getPath("/modules");
        List<Path> classes;
        try (Stream<Path> walk = Files.walk(modules)) {
            classes = walk.filter(p -> p.toString().endsWith(".class")).collect(Collectors.toList());
        }
        try (DataOutputStream out =
                new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(Path.of(args[0])), 1 << 20))) {
            for (Path file : classes) {
                byte[] bytes = Files.readAllBytes(file);
                out.writeInt(bytes.length);
                out.write(bytes);
            }
        }
    }
}
