package tools;

import java.io.File;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Arrays;

/**
 * Runs the static method {@code int run()} of every class in a folder, often enough for the JVM to
 * compile it, and prints what it gives, or what comes of it.
 *
 * <p>Usage: {@code RunShapes FOLDER}
 */
public final class RunShapes {
    private static final int ROUNDS = 3000;

    private RunShapes() {}

    public static void main(String[] args) throws Exception {
        File folder = new File(args[0]);
        String[] names = folder.list((f, name) -> name.endsWith(".class"));
        Arrays.sort(names);
        try (URLClassLoader loader = new URLClassLoader(new URL[] {folder.toURI().toURL()}, null)) {
            for (String file : names) {
                String name = file.substring(0, file.length() - ".class".length());
                // Methods of 64 KiB are never compiled.
                int rounds = new File(folder, file).length() > 20_000 ? 3 : ROUNDS;
                System.out.println(name + ": " + run(loader, name, rounds));
            }
        }
    }

    private static String run(ClassLoader loader, String name, int rounds) throws Exception {
        long sum = 0;
        try {
            java.lang.reflect.Method run = Class.forName(name, true, loader).getMethod("run");
            for (int i = 0; i < rounds; i++) {
                sum += (Integer) run.invoke(null);
            }
        } catch (InvocationTargetException e) {
            return e.getCause().toString();
        } catch (NoSuchMethodException e) {
            return "no run";
        } catch (LinkageError e) {
            return e.toString().split("\n")[0];
        }
        return Long.toString(sum);
    }
}
