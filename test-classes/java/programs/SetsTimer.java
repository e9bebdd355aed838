package programs;

import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * Uses processor time until its stdin ends, and answers lines: {@code set} sets the process's timer of CPU time to 123
 * s, {@code interval} says to how many seconds it is set.
 *
 * <p>Usage: {@code SetsTimer LIBRARY}; the library has the native methods.
 */
public final class SetsTimer {
    private static volatile long sink;

    private SetsTimer() {}

    private static native void set(int seconds);

    private static native int interval();

    public static void main(String[] args) throws Exception {
        System.load(args[0]);
        Thread busy = new Thread(SetsTimer::work, "busy");
        busy.setDaemon(true);
        busy.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("set")) {
                set(123);
                System.out.println(line);
            } else {
                System.out.println(interval() + " s");
            }
        }
    }

    private static void work() {
        while (true) sink++;
    }
}
