package programs;

import java.util.Collections;
import java.util.Scanner;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * Three threads call {@code pay} four times a round, always in the same order: twice from {@code checkout}, once from
 * {@code refund}, once from a constructor. Usage: {@code Traced ROUNDS [virtual]}. Without arguments, it reads numbers
 * of rounds, which three threads do that stay, and answers each.
 */
public final class Traced {
    private static final int THREADS = 3;
    private static volatile int sum;

    private Traced() {}

    static final class Item {
        final int price;

        Item(int price) {
            this.price = pay(price);
        }
    }

    /** Long enough for a probe. */
    static int pay(int price) {
        sum += price;
        return price / 7 + 1;
    }

    static int checkout(int i) {
        return pay(i) + pay(i + 1);
    }

    static int refund(int i) {
        return pay(-i);
    }

    static void round(int i) {
        sum += checkout(i) + refund(i) + new Item(i).price;
    }

    private static void rounds(int count, boolean isVirtual) throws Exception {
        Thread[] threads = new Thread[THREADS];
        for (int t = 0; t < THREADS; t++) {
            Runnable task = () -> {
                for (int i = 0; i < count; i++) round(i);
            };
            threads[t] = isVirtual ? startVirtual(task) : new Thread(task, "caller-" + t);
            if (!isVirtual) threads[t].start();
        }
        for (Thread thread : threads) thread.join();
    }

    /** By reflection, because the oldest JDKs have no virtual threads. */
    private static Thread startVirtual(Runnable task) throws Exception {
        return (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, task);
    }

    public static void main(String[] args) throws Exception {
        if (args.length > 0) {
            rounds(Integer.parseInt(args[0]), args.length > 1);
            return;
        }
        Scanner lines = new Scanner(System.in);
        CyclicBarrier barrier = new CyclicBarrier(THREADS);
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        System.out.println("ready");
        while (lines.hasNextInt()) {
            int count = lines.nextInt();
            Callable<Void> task = () -> {
                barrier.await();
                for (int i = 0; i < count; i++) round(i);
                return null;
            };
            for (Future<Void> done : threads.invokeAll(Collections.nCopies(THREADS, task))) done.get();
            System.out.println("done");
        }
        threads.shutdown();
    }
}
