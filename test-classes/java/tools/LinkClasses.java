package tools;

import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Loads and links classes, which has the JVM verify them, and prints those that it refuses with
 * the kind of error.
 *
 * <p>Usage: {@code LinkClasses NAMES JAR...}, where NAMES is a file with a class name a line.
 */
public final class LinkClasses {
    private LinkClasses() {}

    public static void main(String[] args) throws IOException {
        List<URL> jars = new ArrayList<>();
        for (String jar : List.of(args).subList(1, args.length)) {
            jars.add(Path.of(jar).toUri().toURL());
        }
        int linked = 0;
        try (URLClassLoader loader = new URLClassLoader(jars.toArray(new URL[0]), ClassLoader.getPlatformClassLoader())) {
            for (String name : Files.readAllLines(Path.of(args[0]))) {
                try {
                    // Asking for constructors links the class, and does not initialize it.
                    Class.forName(name, false, loader).getDeclaredConstructors();
                    linked++;
                } catch (LinkageError | ClassNotFoundException | SecurityException e) {
                    System.out.println(name + " " + e.getClass().getSimpleName());
                }
            }
        }
        System.out.println("linked " + linked);
    }
}
