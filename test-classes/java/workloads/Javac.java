package workloads;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.tools.ToolProvider;

/**
 * Compiles the sources of a folder once with the JDK's compiler, from the start of the JVM on:
 * milliseconds.
 *
 * <p>Usage: {@code Javac SOURCES OUTPUT}
 */
public final class Javac {
    private Javac() {}

    public static void main(String[] args) throws Exception {
        List<String> arguments = new ArrayList<>(List.of("-nowarn", "-proc:none", "-d", args[1]));
        try (Stream<Path> files = Files.walk(Path.of(args[0]))) {
            arguments.addAll(files.map(Path::toString).filter(f -> f.endsWith(".java")).sorted()
                .collect(Collectors.toList()));
        }
        int status = ToolProvider.getSystemJavaCompiler().run(null, null, null, arguments.toArray(String[]::new));
        if (status != 0) {
            throw new IllegalStateException("status " + status);
        }
        long started = ProcessHandle.current().info().startInstant().orElseThrow().toEpochMilli();
        Figures.print("ms", System.currentTimeMillis() - started);
    }
}
