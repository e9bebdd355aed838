package programs;

import java.io.IOException;
import java.util.List;

/**
 * Throws exceptions in all ways, and knows which leave which methods: {@code Throwing ROUNDS [virtual]}. Prints
 * {@code left METHOD CLASS THROWN BEGAN} for each method and class, where BEGAN counts those that came out of no other
 * measured method. With {@code virtual}, virtual threads do the same, and wait while exceptions pass.
 */
public final class Throwing {
    private static final int THREADS = 3;
    /** What each round of a thread does: the method, the class, exceptions that leave it, and those that began there. */
    private static final String[] ROUND = {
        "shadows programs.Throwing$Shadows 1 1",
        "fifth java.lang.IllegalStateException 1 1",
        "fourth java.lang.IllegalStateException 1 0",
        "third java.lang.IllegalStateException 1 0",
        "second java.lang.IllegalStateException 1 0",
        "first java.lang.IllegalStateException 1 0",
        "parse java.lang.NumberFormatException 5 5",
        "reads java.io.IOException 1 1",
        "throwsAgain java.io.IOException 1 0",
        "cleansUp java.lang.NumberFormatException 1 0",
        "closes java.io.IOException 1 0",
        "close java.lang.IllegalStateException 1 1",
        "own java.io.IOException 1 1",
        "waits java.lang.NumberFormatException 1 0",
        "wraps java.lang.IllegalArgumentException 1 1",
        "replaces java.lang.NumberFormatException 1 1",
        "visit programs.Throwing$Stop 1 1",
        "visitAll programs.Throwing$Stop 1 0",
        "same programs.Throwing$Stop 2 2",
        "twice programs.Throwing$Stop 1 0",
        "Bad.<init> java.lang.UnsupportedOperationException 2 2",
        "Worse.<init> java.lang.UnsupportedOperationException 0 0",
        "make java.lang.UnsupportedOperationException 2 0",
        "nothing java.lang.NullPointerException 1 1",
        "index java.lang.ArrayIndexOutOfBoundsException 1 1",
        "cast java.lang.ClassCastException 1 1",
        "various java.lang.IllegalStateException 1 1",
        "various java.lang.IllegalArgumentException 2 2",
        "various java.io.IOException 1 1",
        "passes java.lang.IllegalStateException 1 0",
        "passes java.lang.IllegalArgumentException 2 0",
        "passes java.io.IOException 1 0",
    };
    private static volatile int sum;

    private Throwing() {}

    /** An exception without a stack, of which there is one. */
    static final class Stop extends RuntimeException {
        private static final long serialVersionUID = 1;
        static final Stop ONE = new Stop();

        private Stop() {
            super("stop", null, false, false);
        }
    }

    /** Has a field that {@code Throwable} has, too. It is thrown first. */
    static final class Shadows extends RuntimeException {
        private static final long serialVersionUID = 1;
        final long filler = 0x2345_6789_2345_6789L;
        final String detailMessage = "of its own";

        Shadows() {
            super("of Throwable");
        }
    }

    static void shadows() {
        throw new Shadows();
    }

    static class Bad {
        Bad(boolean isBad) {
            if (isBad) throw new UnsupportedOperationException("bad");
        }
    }

    /** No bytecode can catch what its {@code super(...)} throws. */
    static final class Worse extends Bad {
        Worse() {
            super(true);
        }
    }

    static void first() {
        second();
    }

    static void second() {
        third();
    }

    static void third() {
        fourth();
    }

    static void fourth() {
        fifth();
    }

    static void fifth() {
        throw new IllegalStateException("out of stock");
    }

    /** The JDK throws. */
    static int parse(String text) {
        return Integer.parseInt(text);
    }

    static void reads() throws IOException {
        throw new IOException("no such order");
    }

    static void throwsAgain() throws IOException {
        try {
            reads();
        } catch (IOException e) {
            sum++;
            throw e;
        }
    }

    static void cleansUp() {
        try {
            parse("a");
        } finally {
            sum++;
        }
    }

    static void own() throws IOException {
        throw new IOException("not sent");
    }

    static void close() {
        throw new IllegalStateException("closed twice");
    }

    /** Catches another exception while one passes. */
    static void closes() throws IOException {
        try {
            own();
        } finally {
            try {
                close();
            } catch (IllegalStateException e) {
                sum++;
            }
        }
    }

    static void waits(boolean isVirtual) throws InterruptedException {
        try {
            parse("b");
        } finally {
            if (isVirtual) Thread.sleep(1);
        }
    }

    static void wraps() {
        try {
            parse("c");
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(e);
        }
    }

    /** Throws another one of the same class. */
    static void replaces() {
        try {
            parse("d");
        } catch (NumberFormatException e) {
            throw new NumberFormatException("not a price");
        }
    }

    static void visit(int number) {
        throw Stop.ONE;
    }

    /** Through a method of the JDK. */
    static void visitAll() {
        List.of(1).forEach(Throwing::visit);
    }

    static void same() {
        throw Stop.ONE;
    }

    /** Throws the one exception that it has caught. */
    static void twice() {
        try {
            same();
        } catch (Stop e) {
            sum++;
        }
        same();
    }

    static Object make(boolean isWorse) {
        return isWorse ? new Worse() : new Bad(true);
    }

    static int nothing(String text) {
        return text.length();
    }

    static int index(int[] array) {
        return array[3];
    }

    static String cast(Object object) {
        return (String) object;
    }

    static void various(int turn) throws IOException {
        if (turn == 0) throw new IllegalStateException("not today");
        if (turn == 1) throw new IOException("not here");
        throw new IllegalArgumentException("not this");
    }

    /** Exceptions of several classes leave it. */
    static void passes(int turn) throws IOException {
        various(turn);
    }

    /** No exception leaves it. */
    static int caughtInside() {
        try {
            throw new IllegalStateException("inside");
        } catch (IllegalStateException e) {
            return 1;
        }
    }

    private interface Task {
        void run() throws Exception;
    }

    private static void expect(Class<?> wanted, Task task) {
        try {
            task.run();
        } catch (Exception e) {
            if (e.getClass() != wanted) throw new AssertionError(e);
            return;
        }
        throw new AssertionError("no " + wanted);
    }

    static void round(boolean isVirtual) {
        expect(Shadows.class, Throwing::shadows);
        expect(IllegalStateException.class, Throwing::first);
        expect(NumberFormatException.class, () -> parse("x"));
        expect(IOException.class, Throwing::throwsAgain);
        expect(NumberFormatException.class, Throwing::cleansUp);
        expect(IOException.class, Throwing::closes);
        expect(NumberFormatException.class, () -> waits(isVirtual));
        expect(IllegalArgumentException.class, Throwing::wraps);
        expect(NumberFormatException.class, Throwing::replaces);
        expect(Stop.class, Throwing::visitAll);
        expect(Stop.class, Throwing::twice);
        expect(UnsupportedOperationException.class, () -> make(false));
        expect(UnsupportedOperationException.class, () -> make(true));
        expect(NullPointerException.class, () -> nothing(null));
        expect(ArrayIndexOutOfBoundsException.class, () -> index(new int[1]));
        expect(ClassCastException.class, () -> cast(1));
        expect(IllegalArgumentException.class, () -> passes(2));
        expect(IllegalStateException.class, () -> passes(0));
        expect(IllegalArgumentException.class, () -> passes(3));
        expect(IOException.class, () -> passes(1));
        sum += caughtInside();
    }

    private static void run(int rounds, boolean isVirtual) {
        for (int i = 0; i < rounds; i++) round(isVirtual);
    }

    public static void main(String[] args) throws Exception {
        int rounds = Integer.parseInt(args[0]);
        boolean isVirtual = args.length > 1;
        Thread[] threads = new Thread[THREADS];
        for (int i = 0; i < THREADS; i++) {
            Runnable task = () -> run(rounds, isVirtual);
            threads[i] = isVirtual ? startVirtual(task) : new Thread(task, "thrower-" + i);
            if (!isVirtual) threads[i].start();
        }
        for (Thread thread : threads) thread.join();
        for (String line : ROUND) {
            String[] words = line.split(" ");
            long all = (long) rounds * THREADS;
            System.out.println("left " + words[0] + " " + words[1] + " " + Long.parseLong(words[2]) * all
                    + " " + Long.parseLong(words[3]) * all);
        }
    }

    /** By reflection, because the oldest JDKs have no virtual threads. */
    private static Thread startVirtual(Runnable task) throws Exception {
        return (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, task);
    }
}
