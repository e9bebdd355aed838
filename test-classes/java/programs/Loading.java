package programs;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

/**
 * Loads all classes of a jar in a class loader of its own, for each line on its stdin: {@code keep JAR} keeps
 * them, {@code load JAR} lets them go. It answers with how many milliseconds that took and how many classes
 * there were, and ends with its stdin.
 */
public final class Loading {
    private static final List<List<Class<?>>> KEPT = new ArrayList<>();

    private Loading() {}

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", 2);
            long begin = System.nanoTime();
            List<Class<?>> classes = load(words[1]);
            String answer = (System.nanoTime() - begin) / 1_000_000 + " " + classes.size();
            if (words[0].equals("keep")) {
                KEPT.add(classes);
            }
            classes = null;
            // Methods of classes that are gone make room for those of the next.
            System.gc();
            System.out.println(answer);
        }
    }

    private static List<Class<?>> load(String jar) throws Exception {
        List<Class<?>> classes = new ArrayList<>();
        URL[] path = {Path.of(jar).toUri().toURL()};
        try (URLClassLoader loader = new URLClassLoader(path); JarFile file = new JarFile(jar)) {
            for (Enumeration<JarEntry> all = file.entries(); all.hasMoreElements(); ) {
                String name = all.nextElement().getName();
                if (name.endsWith(".class") && !name.contains("META-INF") && !name.contains("-info")) {
                    String of = name.substring(0, name.length() - 6).replace('/', '.');
                    try {
                        classes.add(Class.forName(of, false, loader));
                    } catch (LinkageError e) {
                        // It needs a library that is not there.
                    }
                }
            }
        }
        return classes;
    }
}
