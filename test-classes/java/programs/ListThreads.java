package programs;

import java.lang.management.ManagementFactory;
import java.util.TreeSet;

/** Prints the names of all threads that a program can see, by both ways to see them. */
public final class ListThreads {
    private ListThreads() {}

    public static void main(String[] args) {
        TreeSet<String> names = new TreeSet<>();
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            names.add(thread.getName());
        }
        System.out.println(names);
        System.out.println(Thread.activeCount());
        names.clear();
        var threads = ManagementFactory.getThreadMXBean();
        for (var info : threads.getThreadInfo(threads.getAllThreadIds())) {
            names.add(info.getThreadName());
        }
        System.out.println(names);
    }
}
