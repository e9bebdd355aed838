package agents;

import java.lang.instrument.ClassDefinition;
import java.lang.instrument.UnmodifiableClassException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicLong;

import changing.Steps;
import truth.Count;

/**
 * Redefines {@code changing.Steps} with other bodies of its methods, to and fro: while a call of it
 * is in progress, and then while another thread calls it as fast as it can. Prints what walks of the
 * first part came to.
 *
 * <p>Usage: {@code Changes COUNTS CLASS CHANGES}, the class file being the other version.
 */
public final class Changes {
    private static final AtomicLong WALKS = new AtomicLong();
    private static volatile boolean isOver;

    private Changes() {}

    public static void main(String[] args) throws Exception {
        byte[] before = Again.original(Steps.class);
        byte[] after = Files.readAllBytes(Path.of(args[1]));
        Runnable nothing = () -> {};
        for (int i = 0; i < 3; i++) {
            System.out.println(walk(nothing));
            System.out.println(walk(() -> redefine(after)));
            System.out.println(walk(nothing));
            System.out.println(walk(() -> redefine(before)));
        }

        FutureTask<Void> walking = new FutureTask<>(() -> {
            while (!isOver) {
                walk(nothing);
                WALKS.incrementAndGet();
            }
            return null;
        });
        new Thread(walking, "walking").start();
        for (int i = 0; i < Integer.parseInt(args[2]); i++) {
            redefine(i % 2 == 0 ? after : before);
            long seen = WALKS.get() + 200;
            while (WALKS.get() < seen && !walking.isDone()) {
                Thread.onSpinWait();
            }
        }
        isOver = true;
        walking.get();
        Count.write(args[0]);
    }

    private static String walk(Runnable halfway) {
        try {
            return "walked " + Steps.walk(10, halfway);
        } catch (IllegalStateException e) {
            return "threw";
        }
    }

    private static void redefine(byte[] version) {
        try {
            Agent.instrumentation().redefineClasses(new ClassDefinition(Steps.class, version));
        } catch (ClassNotFoundException | UnmodifiableClassException e) {
            throw new AssertionError(e);
        }
    }
}
