package programs;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/**
 * Requests with known trees. A command on its stdin runs one, and is answered with its own times, in microseconds:
 * {@code START_UNIX_US NAME US NAME US ...}, outermost first.
 *
 * <p>{@code pay}: {@code pay} takes some 490 ms, in it {@code stock} 290 and {@code price} 200. {@code throwing}: the
 * same in {@code stock}, which then throws. {@code short}: {@code pay} takes 5 ms. {@code many COUNT}: so many calls of
 * {@code query}, each a quarter of a millisecond of work, one after the other, in {@code pay}. {@code nested}:
 * {@code pay} in {@code pay}. {@code dense COUNT}: so many requests, one right after the other, each with 20,000 calls
 * of {@code step} of two microseconds; answered with the last one. {@code other}: {@code stock} without a request. {@code locked}: {@code guarded}
 * in {@code pay} waits some 600 ms for a monitor, {@code waited}. {@code threads COUNT}: so many threads at once in
 * {@code pay}; with {@code virtual COUNT}, virtual ones. {@code hang}: begins one that goes on until {@code release}.
 */
public final class Endpoints {
    private static final CountDownLatch RELEASED = new CountDownLatch(1);
    private static volatile long sum;

    private Endpoints() {}

    /** The times of one request. */
    static final class Times {
        final StringBuilder text = new StringBuilder();

        void add(String name, long begin) {
            text.append(' ').append(name).append(' ').append((System.nanoTime() - begin) / 1_000);
        }
    }

    static void pay(String how, int count, Times times) {
        long begin = System.nanoTime();
        try {
            switch (how) {
                case "short":
                    rest(5);
                    break;
                case "many":
                    for (int i = 0; i < count; i++) {
                        query();
                    }
                    break;
                case "dense":
                    for (int i = 0; i < 20_000; i++) {
                        step();
                    }
                    break;
                case "nested":
                    rest(20);
                    pay("pay", 0, times);
                    break;
                case "hang":
                    stock(how, times);
                    break;
                case "locked":
                    guarded(times);
                    break;
                default:
                    stock(how, times);
                    price(times);
            }
        } finally {
            times.add("pay", begin);
        }
    }

    static void stock(String how, Times times) {
        long begin = System.nanoTime();
        try {
            if (how.equals("hang")) {
                RELEASED.await();
                return;
            }
            rest(290);
            if (how.equals("throwing")) {
                throw new IllegalStateException("no stock");
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        } finally {
            times.add("stock", begin);
        }
    }

    static void price(Times times) {
        long begin = System.nanoTime();
        rest(200);
        times.add("price", begin);
    }

    static void guarded(Times times) {
        CountDownLatch held = new CountDownLatch(1);
        Object monitor = new Monitor();
        Thread holder = new Thread(() -> {
            synchronized (monitor) {
                held.countDown();
                rest(600);
            }
        }, "holder");
        holder.start();
        try {
            held.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
        long begin = System.nanoTime();
        synchronized (monitor) {
            times.add("waited", begin);
        }
    }

    private static final class Monitor {}

    static void query() {
        spin(250_000);
    }

    static void step() {
        spin(2_000);
    }

    private static void spin(long ns) {
        long until = System.nanoTime() + ns;
        long product = 1;
        while (System.nanoTime() < until) {
            product *= 31;
        }
        sum += product;
    }

    private static void rest(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static String request(String how, int count) {
        Times times = new Times();
        long start = System.currentTimeMillis() * 1_000;
        try {
            if (how.equals("other")) {
                stock(how, times);
            } else {
                pay(how, count, times);
            }
        } catch (IllegalStateException e) {
            times.text.append(" threw 0");
        }
        return start + times.text.toString();
    }

    private static Thread start(boolean isVirtual, String name, Runnable work) throws Exception {
        if (isVirtual) {
            Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
            Class<?> type = Class.forName("java.lang.Thread$Builder");
            builder = type.getMethod("name", String.class).invoke(builder, name);
            return (Thread) type.getMethod("start", Runnable.class).invoke(builder, work);
        }
        Thread thread = new Thread(work, name);
        thread.start();
        return thread;
    }

    private static String threads(boolean isVirtual, int count) throws Exception {
        String[] answers = new String[count];
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int at = i;
            threads.add(start(isVirtual, "payer-" + i, () -> answers[at] = request("pay", 0)));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return String.join(";", answers);
    }

    public static void main(String[] args) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        Thread hanging = null;
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            int count = words.length > 1 ? Integer.parseInt(words[1]) : 0;
            switch (words[0]) {
                case "threads":
                case "virtual":
                    System.out.println(threads(words[0].equals("virtual"), count));
                    break;
                case "dense":
                    for (int i = 1; i < count; i++) {
                        request("dense", 0);
                    }
                    System.out.println(request("dense", 0));
                    break;
                case "hang":
                    hanging = start(false, "hanging", () -> request("hang", 0));
                    System.out.println("hangs");
                    break;
                case "release":
                    RELEASED.countDown();
                    hanging.join();
                    System.out.println("released");
                    break;
                default:
                    System.out.println(request(words[0], count));
            }
        }
        RELEASED.countDown();
    }
}
