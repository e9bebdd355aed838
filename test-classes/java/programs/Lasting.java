package programs;

import java.io.IOException;
import java.util.concurrent.locks.LockSupport;

/** Calls that go on for as long as the program lives: threads that compute, wait in park, and wait for a monitor. */
public final class Lasting {
    private static volatile long sum;

    private Lasting() {}

    public static void main(String[] args) throws IOException {
        start("computes", Lasting::computes);
        start("parks", Lasting::parks);
        start("waits", Lasting::waits);
        System.out.println("ready");
        while (System.in.read() >= 0) {
            sum++;
        }
    }

    private static void start(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    private static void computes() {
        while (true) {
            for (int i = 0; i < 1_000_000; i++) {
                sum = sum * 31 + i;
            }
            rests();
        }
    }

    private static void rests() {
        LockSupport.parkNanos(10_000_000);
    }

    private static void parks() {
        while (true) {
            LockSupport.park();
        }
    }

    private static void waits() {
        Object monitor = new Object();
        synchronized (monitor) {
            while (true) {
                try {
                    monitor.wait();
                } catch (InterruptedException e) {
                    return;
                }
            }
        }
    }
}
