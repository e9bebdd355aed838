package programs;

import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.LongAdder;

/**
 * Threads that wait, each in its own way, for so many milliseconds. Prints a line for each: its name, and how long it
 * lived in nanoseconds.
 *
 * <p>Usage: {@code Waiting MS [PARKED]}: with PARKED, so many more threads that are only parked, and a line
 * {@code idle} for how long they lived on average.
 */
public final class Waiting {
    private static final Object LOCK = new Object();
    private static final Object NOTIFIED = new Object();
    private static final LinkedBlockingQueue<Integer> QUEUE = new LinkedBlockingQueue<>();
    private static final CountDownLatch HELD = new CountDownLatch(1);
    private static final CountDownLatch OVER = new CountDownLatch(1);
    private static final long BEGAN = System.nanoTime();
    /** The sum of the moments at which idle threads began, in nanoseconds after {@code BEGAN}. */
    private static final LongAdder IDLE_SINCE = new LongAdder();

    private static volatile long ends;

    private Waiting() {}

    private interface Task {
        void run() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        ends = System.nanoTime() + Long.parseLong(args[0]) * 1_000_000;
        int parked = args.length > 1 ? Integer.parseInt(args[1]) : 0;
        for (int i = 0; i < parked; i++) {
            Thread thread = new Thread(null, Waiting::idles, "idle-" + i, 128 * 1024);
            thread.setDaemon(true);
            thread.start();
        }
        List<Waiter> threads = new ArrayList<>();
        ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        Socket client = new Socket(server.getInetAddress(), server.getLocalPort());
        Socket accepted = server.accept();
        threads.add(start("sleeps", Waiting::sleeps));
        threads.add(start("holds", Waiting::holds));
        threads.add(start("blocks", Waiting::blocks));
        threads.add(start("waits", Waiting::waits));
        threads.add(start("waits-briefly", Waiting::waitsBriefly));
        threads.add(start("takes", Waiting::takes));
        threads.add(start("reads", () -> reads(client.getInputStream())));
        threads.add(start("works", Waiting::works));
        rest();
        synchronized (NOTIFIED) {
            NOTIFIED.notifyAll();
        }
        QUEUE.put(1);
        OutputStream out = accepted.getOutputStream();
        out.write(1);
        for (Waiter thread : threads) {
            thread.join();
            System.out.println(thread.getName() + " " + thread.lived);
        }
        if (parked > 0) {
            System.out.println("idle " + (System.nanoTime() - BEGAN - IDLE_SINCE.sum() / parked));
        }
        client.close();
        accepted.close();
        server.close();
    }

    private static void idles() {
        IDLE_SINCE.add(System.nanoTime() - BEGAN);
        quietly(OVER::await);
    }

    private static void quietly(Task task) {
        try {
            task.run();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    private static Waiter start(String name, Task task) {
        Waiter thread = new Waiter(name, task);
        thread.start();
        return thread;
    }

    /** Says nothing itself: at the end, all would wait for the same output. */
    private static final class Waiter extends Thread {
        private final Task task;
        private long lived;

        private Waiter(String name, Task task) {
            super(name);
            this.task = task;
        }

        @Override
        public void run() {
            long began = System.nanoTime();
            quietly(task);
            lived = System.nanoTime() - began;
        }
    }

    private static void rest() throws InterruptedException {
        long left = ends - System.nanoTime();
        if (left > 0) {
            Thread.sleep(left / 1_000_000, (int) (left % 1_000_000));
        }
    }

    /** In short sleeps, so that it never stands still for long. */
    private static void sleeps() throws InterruptedException {
        while (System.nanoTime() < ends) {
            Thread.sleep(7);
        }
    }

    private static void holds() throws InterruptedException {
        synchronized (LOCK) {
            HELD.countDown();
            rest();
        }
    }

    private static void blocks() throws InterruptedException {
        HELD.await();
        synchronized (LOCK) {
            LOCK.hashCode();
        }
    }

    private static void waits() throws InterruptedException {
        synchronized (NOTIFIED) {
            NOTIFIED.wait();
        }
    }

    private static void waitsBriefly() throws InterruptedException {
        Object own = new Object();
        synchronized (own) {
            while (System.nanoTime() < ends) {
                own.wait(20);
            }
        }
    }

    private static void takes() throws InterruptedException {
        QUEUE.take();
    }

    private static void reads(InputStream in) throws Exception {
        in.read();
    }

    /** Half of the time, in a rhythm like that of the looks. */
    private static void works() throws InterruptedException {
        while (System.nanoTime() < ends) {
            long until = System.nanoTime() + 10_000_000;
            while (System.nanoTime() < until) {
                Thread.onSpinWait();
            }
            Thread.sleep(10);
        }
    }
}
