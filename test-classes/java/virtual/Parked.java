package virtual;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;

/**
 * Virtual threads that park in the middle of three calls. A line on stdin is the next stage, and is answered when it is
 * done: {@code park} starts the threads, {@code wake} has them go on and end.
 *
 * <p>Usage: {@code Parked THREADS}
 */
public final class Parked {
    private static volatile boolean isAwake;

    private Parked() {}

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[0]);
        Method start = Thread.class.getMethod("startVirtualThread", Runnable.class);
        List<Thread> threads = new ArrayList<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("park")) {
                CountDownLatch inside = new CountDownLatch(count);
                for (int i = 0; i < count; i++) {
                    threads.add((Thread) start.invoke(null, (Runnable) () -> outer(inside)));
                }
                inside.await();
                for (Thread thread : threads) {
                    while (thread.getState() != Thread.State.WAITING) {
                        Thread.sleep(1);
                    }
                }
            } else if (line.equals("wake")) {
                isAwake = true;
                threads.forEach(LockSupport::unpark);
                for (Thread thread : threads) {
                    thread.join();
                }
                threads.clear();
            }
            System.out.println(line);
        }
    }

    static void outer(CountDownLatch inside) {
        middle(inside);
        after();
    }

    static void middle(CountDownLatch inside) {
        before();
        inner(inside);
        after();
    }

    static void inner(CountDownLatch inside) {
        inside.countDown();
        while (!isAwake) {
            LockSupport.park();
        }
    }

    static void before() {}

    static void after() {}
}
