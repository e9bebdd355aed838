package programs;

import java.io.InputStream;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Does all that is hard on a stack walker, until a file appears: exceptions, null pointers and stack overflows in
 * compiled code, classes that are loaded and unloaded, code that is deoptimized, short threads, virtual threads, and
 * garbage. Each result is checked. Prints {@code done N}, with how many checks there were.
 *
 * <p>Usage: {@code Chaos FILE}.
 */
public final class Chaos {
    private static final AtomicLong DONE = new AtomicLong();
    private static volatile boolean isOver;
    private static volatile Throwable wrong;
    private static int loaders;

    private Chaos() {}

    interface Task {
        void run() throws Exception;
    }

    /** Its target changes, so compiled calls of it are deoptimized. */
    public interface Shape {
        int corners(int seed);
    }

    public static final class Square implements Shape {
        @Override
        public int corners(int seed) {
            return seed ^ 4;
        }
    }

    public static final class Triangle implements Shape {
        @Override
        public int corners(int seed) {
            return seed ^ 3;
        }
    }

    public static void main(String[] args) throws Exception {
        List<Thread> threads = new ArrayList<>();
        Task[] tasks = {
            Chaos::exceptions, Chaos::overflow, Chaos::reload, Chaos::shortThreads, Chaos::virtualThreads, Chaos::garbage
        };
        for (Task task : tasks) {
            Thread thread = new Thread(() -> repeat(task), "chaos-" + threads.size());
            threads.add(thread);
            thread.start();
        }
        Path file = Path.of(args[0]);
        while (!Files.exists(file) && wrong == null) {
            Thread.sleep(5);
        }
        isOver = true;
        for (Thread thread : threads) {
            thread.join();
        }
        if (wrong != null) {
            throw new IllegalStateException(wrong);
        }
        System.out.println("done " + DONE.get());
    }

    private static void repeat(Task task) {
        try {
            while (!isOver) {
                task.run();
                DONE.incrementAndGet();
            }
        } catch (Throwable thrown) {
            wrong = thrown;
        }
    }

    private static void check(boolean holds) {
        if (!holds) {
            throw new IllegalStateException("wrong result");
        }
    }

    private static void exceptions() {
        int caught = 0;
        for (int i = 0; i < 1_000; i++) {
            try {
                caught += length(i % 3 == 0 ? null : "text", i % 5);
            } catch (NullPointerException e) {
                caught++;
            } catch (ArithmeticException e) {
                caught += 2;
            }
        }
        // A third are null; of the others, a fifth divide by zero.
        check(caught == 334 + 2 * 133 + 533 * 4);
    }

    private static int length(String text, int divisor) {
        int length = text.length();
        return length * divisor / divisor;
    }

    private static void overflow() {
        try {
            down(0);
            check(false);
        } catch (StackOverflowError expected) {
            check(expected.getStackTrace().length > 0);
        }
    }

    private static int down(int depth) {
        return down(depth + 1) + 1;
    }

    /** Loads this class's shapes again, calls them through a call site that was compiled for others, and drops them. */
    private static void reload() throws Exception {
        Again loader = new Again();
        for (String name : new String[] {"programs.Chaos$Square", "programs.Chaos$Triangle"}) {
            Shape shape = (Shape) loader.loadClass(name).getDeclaredConstructor().newInstance();
            int sum = 0;
            for (int i = 0; i < 20_000; i++) {
                sum += shape.corners(i) & 1;
            }
            check(sum == 10_000);
        }
        // Classes are not unloaded as long as there is enough memory.
        loaders++;
        if (loaders % 500 == 0) {
            System.gc();
        }
    }

    private static final class Again extends ClassLoader {
        Again() {
            super(Chaos.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.startsWith("programs.Chaos$S") && !name.startsWith("programs.Chaos$T") || name.endsWith("Shape")
                    || name.endsWith("Task")) {
                return super.loadClass(name, resolve);
            }
            try (InputStream in = getParent().getResourceAsStream(name.replace('.', '/') + ".class")) {
                byte[] bytes = in.readAllBytes();
                return defineClass(name, bytes, 0, bytes.length);
            } catch (java.io.IOException e) {
                throw new ClassNotFoundException(name, e);
            }
        }
    }

    private static void shortThreads() throws Exception {
        CountDownLatch left = new CountDownLatch(20);
        for (int i = 0; i < 20; i++) {
            new Thread(() -> {
                exceptions();
                left.countDown();
            }).start();
        }
        left.await();
    }

    private static void virtualThreads() throws Exception {
        Method start;
        try {
            start = Thread.class.getMethod("startVirtualThread", Runnable.class);
        } catch (NoSuchMethodException e) {
            Thread.sleep(10);
            return;
        }
        CountDownLatch left = new CountDownLatch(200);
        for (int i = 0; i < 200; i++) {
            Runnable task = () -> {
                try {
                    Thread.sleep(1);
                    exceptions();
                    Thread.sleep(1);
                    left.countDown();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            };
            start.invoke(null, task);
        }
        left.await();
    }

    private static void garbage() {
        byte[][] kept = new byte[64][];
        for (int i = 0; i < 2_000; i++) {
            kept[i % kept.length] = new byte[i];
        }
        check(kept[0].length == 1_984);
    }
}
