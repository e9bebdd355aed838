package programs;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What goes wrong in services, with the truth about it. What was called is printed at the end, a line a
 * method: its name, calls and throws.
 *
 * <p>Usage: {@code Faults threads|memory|stop|classes|children|exit|halt NUMBER [LIBRARY]}; the library has the native
 * methods
 */
public final class Faults {
    private static final AtomicLong WORKED = new AtomicLong();
    private static long sink;

    private Faults() {}

    public static void main(String[] args) throws Exception {
        int number = Integer.parseInt(args[1]);
        if (args.length > 2) {
            System.load(args[2]);
        }
        switch (args[0]) {
            case "threads":
                threads(number);
                break;
            case "memory":
                memory(number);
                break;
            case "stop":
                stopThreads(number);
                break;
            case "classes":
                classes(number);
                break;
            case "children":
                children(number);
                break;
            case "exit":
            case "halt":
                end(args[0].equals("exit"), number);
                break;
            default:
                throw new IllegalArgumentException(args[0]);
        }
        System.out.println("ended");
    }

    private static void print(String method, long calls, long thrown) {
        System.out.println(method + " " + calls + " " + thrown);
    }

    /** Threads that live for a few calls, some at once. */
    private static void threads(int number) throws InterruptedException {
        for (int i = 0; i < number; i += 8) {
            Thread[] threads = new Thread[8];
            for (int t = 0; t < threads.length; t++) {
                threads[t] = new Thread(Faults::work);
                threads[t].start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
        }
        print("work ()V", WORKED.get(), 0);
    }

    private static void work() {
        WORKED.incrementAndGet();
    }

    private static long fills;
    private static long fillsFailed;

    /** Fills the heap until there is no more, through calls inside one another. */
    private static void memory(int number) {
        for (int i = 0; i < number; i++) {
            List<byte[]> kept = new ArrayList<>();
            try {
                while (true) {
                    fill(kept, 5);
                }
            } catch (OutOfMemoryError e) {
                kept.clear();
            }
        }
        print("fill (Ljava/util/List;I)V", fills, fillsFailed);
    }

    private static void fill(List<byte[]> kept, int depth) {
        fills++;
        try {
            if (depth > 0) {
                fill(kept, depth - 1);
            } else {
                kept.add(new byte[100_000]);
            }
        } catch (OutOfMemoryError e) {
            fillsFailed++;
            throw e;
        }
    }

    /** Has the JVM throw an exception in a thread, wherever that is. */
    private static native void stop(Thread thread, Throwable thrown);

    /** Threads that are stopped in the middle of their calls. */
    private static void stopThreads(int number) throws InterruptedException {
        long steps = 0;
        for (int i = 0; i < number; i++) {
            Steps steady = new Steps();
            Thread thread = new Thread(steady);
            thread.setUncaughtExceptionHandler((t, e) -> { });
            thread.start();
            while (steady.steps < 10_000) {
                Thread.onSpinWait();
            }
            stop(thread, new IllegalStateException("stopped"));
            thread.join();
            steps += steady.steps;
        }
        print("step ()V", steps, 0);
    }

    private static class Steps implements Runnable {
        volatile long steps;

        @Override
        public void run() {
            while (true) {
                step();
            }
        }

        void step() {
            inner();
            steps++;
        }

        private void inner() {
            sink++;
        }
    }

    /** Ends the JVM from one of some busy threads; at that moment it prints how many calls there were. */
    private static void end(boolean isExit, int number) throws InterruptedException {
        Steps[] all = new Steps[number];
        for (int i = 0; i < number; i++) {
            all[i] = new Steps();
            new Thread(all[i]).start();
        }
        Thread.sleep(300);
        Steps last = new Steps() {
            @Override
            void step() {
                super.step();
                if (steps == 100_000) {
                    long steps = 0;
                    for (Steps one : all) {
                        steps += one.steps;
                    }
                    print("step ()V", steps, 0);
                    System.out.flush();
                    if (isExit) {
                        System.exit(3);
                    } else {
                        Runtime.getRuntime().halt(3);
                    }
                }
            }
        };
        last.run();
    }

    /** The same class again and again, each time by a loader of its own, as when a service is deployed. */
    private static void classes(int number) throws Exception {
        byte[] bytes = bytesOf("programs/Deployed.class");
        for (int i = 1; i <= number; i++) {
            Class<?> deployed = new Deployer(bytes).loadClass("programs.Deployed");
            deployed.getMethod("call").invoke(null);
            if (i % 100 == 0) {
                System.gc();
                // The JVM tells of what was freed a little later.
                Thread.sleep(30);
            }
            if (i % 1000 == 0) {
                System.out.println("resident " + resident());
            }
        }
        print("call ()V", number, 0);
    }

    /** Kilobytes of memory that the process has. */
    private static long resident() throws IOException {
        for (String line : java.nio.file.Files.readAllLines(java.nio.file.Path.of("/proc/self/status"))) {
            if (line.startsWith("VmRSS:")) {
                return Long.parseLong(line.replaceAll("[^0-9]", ""));
            }
        }
        throw new IOException("no VmRSS");
    }

    private static byte[] bytesOf(String name) throws IOException {
        try (InputStream in = Faults.class.getClassLoader().getResourceAsStream(name)) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            in.transferTo(out);
            return out.toByteArray();
        }
    }

    private static final class Deployer extends ClassLoader {
        private final byte[] bytes;

        Deployer(byte[] bytes) {
            super(null);
            this.bytes = bytes;
        }

        @Override
        protected Class<?> findClass(String name) {
            return defineClass(name, bytes, 0, bytes.length);
        }
    }

    /** Forks the process, without another program; gives the child's exit status. */
    private static native int fork();

    /** Processes are started while other threads are busy. */
    private static void children(int number) throws Exception {
        Thread thread = new Thread(new Steps());
        thread.setDaemon(true);
        thread.start();
        for (int i = 0; i < number; i++) {
            child(i);
            if (fork() != 7) {
                throw new AssertionError("the child's exit status");
            }
        }
        print("child (I)V", number, 0);
    }

    private static void child(int i) throws Exception {
        Process process = new ProcessBuilder("sh", "-c", "ls -l /proc/$$/fd; echo child " + i).start();
        String text = new String(process.getInputStream().readAllBytes());
        if (process.waitFor() != 0 || !text.contains("child " + i)) {
            throw new AssertionError(text);
        }
        // Files of the agent are its own.
        if (text.contains(".csv") || text.contains("socket:")) {
            throw new AssertionError(text);
        }
    }
}
