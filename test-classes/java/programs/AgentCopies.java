package programs;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/**
 * Starts the agent from copies of its classes in class loaders of their own, as two web applications would, and prints
 * what each answers. Then the loaders go. Arguments: the jar and the options.
 */
public final class AgentCopies {
    private AgentCopies() {}

    public static void main(String[] args) throws Exception {
        URL[] jar = {Path.of(args[0]).toUri().toURL()};
        WeakReference<?>[] loaders = {start(jar, args[1]), start(jar, args[1])};
        for (int i = 0; i < 100; i++) {
            Work.run(i);
        }
        for (WeakReference<?> loader : loaders) {
            for (int i = 0; i < 100 && loader.get() != null; i++) {
                System.gc();
                Thread.sleep(10);
            }
            System.out.println("gone " + (loader.get() == null));
        }
        for (int i = 0; i < 100 && openLibraries() > 1; i++) {
            System.gc();
            Thread.sleep(10);
        }
        System.out.println("open " + openLibraries());
        for (int i = 0; i < 100; i++) {
            Work.run(i);
        }
    }

    /** How many descriptors the process has of the library, whose file is deleted. */
    private static long openLibraries() throws Exception {
        try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"))) {
            return files.filter(AgentCopies::isLibrary).count();
        }
    }

    private static boolean isLibrary(Path descriptor) {
        try {
            return Files.readSymbolicLink(descriptor).toString().endsWith("/libtprofiler.so (deleted)");
        } catch (IOException e) {
            // That of the list itself.
            return false;
        }
    }

    private static WeakReference<?> start(URL[] jar, String options) throws Exception {
        // The thread's loader is the application's, as in a container.
        URLClassLoader loader = new URLClassLoader(jar, ClassLoader.getPlatformClassLoader());
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        thread.setContextClassLoader(loader);
        Class<?> copy = loader.loadClass("io.github.tprofiler.Tprofiler");
        System.out.println("start " + copy.getMethod("start", String.class).invoke(null, options));
        thread.setContextClassLoader(before);
        return new WeakReference<>(loader);
    }

    /** Loaded when the agent is there: a class in which a loop runs would wait. */
    private static final class Work {
        private static int runs;

        private static void run(int i) {
            runs += i;
            if (runs < 0) {
                throw new IllegalArgumentException();
            }
        }
    }
}
