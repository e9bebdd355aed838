package programs;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.SynchronousQueue;

/**
 * Two threads that wait for each other's monitor for ever, once told so on stdin: {@code lock}. With {@code contend},
 * a thread waits for a monitor for a tenth of a second; with {@code allocate}, it allocates 64 MB; with {@code swap},
 * two threads wait for each other many thousand times a second from then on. With {@code virtual}, after {@code lock},
 * a virtual thread waits for one of the monitors. It ends with its stdin.
 */
public final class Deadlock {
    private static final class Side {}

    private Deadlock() {}

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("lock")) {
                lock();
            } else if (line.equals("virtual")) {
                Runnable task = () -> takeTaken();
                // The compiler does not know it in Java 11.
                Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, task);
            } else if (line.equals("allocate")) {
                allocate();
            } else if (line.equals("swap")) {
                SynchronousQueue<String> queue = new SynchronousQueue<>();
                start("giver", () -> swap(queue, true));
                start("taker", () -> swap(queue, false));
            } else {
                contend();
            }
            System.out.println(line);
        }
    }

    private static volatile byte[] sink;
    private static volatile Side taken;

    private static void takeTaken() {
        synchronized (taken) {
            throw new IllegalStateException("it was free");
        }
    }

    private static void allocate() {
        for (int i = 0; i < 64; i++) {
            sink = new byte[1 << 20];
        }
    }

    private static void lock() {
        Side left = new Side();
        Side right = new Side();
        taken = left;
        CountDownLatch both = new CountDownLatch(2);
        start("left", () -> take(left, right, both));
        start("right", () -> take(right, left, both));
    }

    private static void take(Side first, Side second, CountDownLatch both) {
        synchronized (first) {
            both.countDown();
            try {
                both.await();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            synchronized (second) {
                throw new IllegalStateException("both were free");
            }
        }
    }

    private static void swap(SynchronousQueue<String> queue, boolean gives) {
        try {
            while (true) {
                if (gives) {
                    queue.put("");
                } else {
                    queue.take();
                }
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void contend() throws InterruptedException {
        Deadlock lock = new Deadlock();
        CountDownLatch begun = new CountDownLatch(1);
        Thread thread;
        synchronized (lock) {
            thread = start("waiter", () -> enter(lock, begun));
            begun.await();
            Thread.sleep(100);
        }
        thread.join();
    }

    private static void enter(Deadlock lock, CountDownLatch begun) {
        begun.countDown();
        synchronized (lock) {
            begun.countDown();
        }
    }

    private static Thread start(String name, Runnable task) {
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }
}
