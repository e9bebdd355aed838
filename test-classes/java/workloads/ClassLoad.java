package workloads;

import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.Enumeration;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

/**
 * Loads and links all classes of a library: milliseconds.
 *
 * <p>Usage: {@code ClassLoad JAR}
 */
public final class ClassLoad {
    private ClassLoad() {}

    public static void main(String[] args) throws Exception {
        long begin = System.nanoTime();
        int classes = 0;
        URL[] path = {Path.of(args[0]).toUri().toURL()};
        try (URLClassLoader loader = new URLClassLoader(path); JarFile jar = new JarFile(args[0])) {
            for (Enumeration<JarEntry> all = jar.entries(); all.hasMoreElements(); ) {
                String name = all.nextElement().getName();
                if (name.endsWith(".class") && !name.startsWith("META-INF") && !name.startsWith("module-info")) {
                    String of = name.substring(0, name.length() - 6).replace('/', '.');
                    try {
                        // The constructors are told of a class that is linked.
                        Class.forName(of, false, loader).getDeclaredConstructors();
                        classes++;
                    } catch (NoClassDefFoundError e) {
                        // It needs a library that is not there.
                    }
                }
            }
        }
        Figures.print("ms", (System.nanoTime() - begin) / 1e6);
        System.out.println("classes " + classes);
    }
}
