package programs;

import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * Uses processor time until its stdin ends, and answers lines: {@code set MICROS} sets the process's timer of CPU time,
 * {@code interval} says to how many microseconds it is set, {@code take} ignores its signal.
 *
 * <p>Usage: {@code SetsTimer LIBRARY}; the library has the native methods.
 */
public final class SetsTimer {
    private static volatile long sink;

    private SetsTimer() {}

    private static native void set(long micros);

    private static native long interval();

    public static void main(String[] args) throws Exception {
        System.load(args[0]);
        Thread busy = new Thread(SetsTimer::work, "busy");
        busy.setDaemon(true);
        busy.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.startsWith("set ")) {
                set(Long.parseLong(line.substring(4)));
                System.out.println("set");
            } else if (line.equals("take")) {
                TakesSignal.ignore("PROF");
                System.out.println("taken");
            } else {
                System.out.println(interval());
            }
        }
    }

    private static void work() {
        while (true) sink++;
    }
}
