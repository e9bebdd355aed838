package programs;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;

/**
 * Many loaded classes and many parked threads. Classes are copies of {@link Unit00000} under other names, some of
 * them copies of {@link Torn00000}, which cannot be linked, and of these some are not linked.
 *
 * <p>Usage: {@code Many CLASSES TORN THREADS DEPTH}. It says {@code ready}, answers {@code call} with the sum of what
 * a method of each class returns, and ends with its stdin. After {@code hold} and until {@code release} a thread runs
 * loops that HotSpot cannot stop: with -XX:-UseCountedLoopSafepoints all threads wait for the end of one.
 */
public final class Many {
    private Many() {}

    /** A small class. */
    public static final class Unit00000 {
        private Unit00000() {}

        public static int of(int number) {
            int sum = 0;
            for (int i = 0; i < 3; i++) {
                sum += number;
            }
            return sum / 3;
        }
    }

    /** A class whose verification needs a class that is missing. */
    public static final class Torn00000 {
        private Torn00000() {}

        static Object of(Gone.Child child) {
            return Gone.of(child);
        }
    }

    /** This class and its child are there when the program is compiled, and missing when it runs. */
    static class Gone {
        static Object of(Gone gone) {
            return gone;
        }

        static final class Child extends Gone {}
    }

    private static final class Loader extends ClassLoader {
        private final byte[] unit = bytes("Many$Unit00000.class");
        private final byte[] torn = bytes("Many$Torn00000.class");

        Loader() throws IOException {
            super(Many.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (name.startsWith("programs.Many$Gone")) {
                throw new ClassNotFoundException(name);
            }
            return super.loadClass(name, resolve);
        }

        Class<?> define(boolean isTorn, int number) {
            byte[] bytes = (isTorn ? torn : unit).clone();
            byte[] from = (isTorn ? "Torn00000" : "Unit00000").getBytes(StandardCharsets.US_ASCII);
            byte[] to = String.format(isTorn ? "Torn%05d" : "Unit%05d", number)
                    .getBytes(StandardCharsets.US_ASCII);
            for (int at = 0; at + from.length <= bytes.length; at++) {
                int same = 0;
                while (same < from.length && bytes[at + same] == from[same]) {
                    same++;
                }
                if (same == from.length) {
                    System.arraycopy(to, 0, bytes, at, to.length);
                }
            }
            return defineClass(null, bytes, 0, bytes.length);
        }

        private static byte[] bytes(String name) throws IOException {
            try (InputStream in = Many.class.getResourceAsStream(name)) {
                return in.readAllBytes();
            }
        }
    }

    public static void main(String[] args) throws Exception {
        int classes = Integer.parseInt(args[0]);
        int torn = Integer.parseInt(args[1]);
        int threads = Integer.parseInt(args[2]);
        int depth = Integer.parseInt(args[3]);
        Loader loader = new Loader();
        List<Class<?>> units = new ArrayList<>();
        for (int i = 1; i <= classes; i++) {
            Class<?> unit = loader.define(false, i);
            // Three of four are linked and used.
            if (i % 4 != 0) {
                unit.getMethod("of", int.class).invoke(null, i);
                units.add(unit);
            }
            if (torn > 0 && i % Math.max(1, classes / torn) == 0) {
                loader.define(true, i);
            }
        }
        CountDownLatch parked = new CountDownLatch(threads);
        for (int i = 0; i < threads; i++) {
            Thread thread = new Thread(null, () -> park(depth, parked), "parked-" + i, 256 << 10);
            thread.setDaemon(true);
            thread.start();
        }
        parked.await();
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("hold")) {
                holds = true;
                Thread thread = new Thread(Many::hold, "holding");
                thread.setDaemon(true);
                thread.start();
                System.out.println(held.join() + " ms");
                continue;
            }
            if (line.equals("release")) {
                holds = false;
                System.out.println("released");
                continue;
            }
            long sum = 0;
            for (Class<?> unit : units) {
                sum += (int) unit.getMethod("of", int.class).invoke(null, 1);
            }
            System.out.println(sum);
        }
        System.exit(0);
    }

    private static volatile boolean holds;
    private static final CompletableFuture<Long> held = new CompletableFuture<>();

    private static void hold() {
        for (int round = 0; holds; round++) {
            long begun = System.nanoTime();
            // Shorter until it is compiled.
            turn(round < 8 ? 1 << 24 : 1 << 29);
            if (round == 8) {
                held.complete((System.nanoTime() - begun) / 1_000_000);
            }
        }
    }

    private static int turn(int times) {
        int bits = 1;
        for (int i = 0; i < times; i++) {
            bits ^= bits << 13;
            bits ^= bits >>> 17;
            bits ^= bits << 5;
        }
        return bits;
    }

    private static void park(int depth, CountDownLatch parked) {
        if (depth > 0) {
            park(depth - 1, parked);
            return;
        }
        parked.countDown();
        while (true) {
            LockSupport.park();
        }
    }
}
