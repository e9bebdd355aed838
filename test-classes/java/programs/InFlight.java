package programs;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.util.concurrent.CountDownLatch;

/**
 * A class whose superclass takes long to load: its bytes have passed the load hook, and it is not defined yet.
 *
 * <p>Commands: {@code load} begins to load {@link Late} and answers when its superclass is being looked for;
 * {@code release} lets that be found and answers when the class is defined; {@code late COUNT} and
 * {@code other COUNT} call a method so often. It ends with its stdin.
 */
public final class InFlight {
    private InFlight() {}

    /** The superclass. */
    public static class Base {
        private Base() {}

        Base(int unused) {}
    }

    /** The class that is defined late. */
    public static final class Late extends Base implements Runnable {
        private int calls;

        public Late() {
            super(0);
        }

        @Override
        public void run() {
            for (int i = 0; i < 3; i++) {
                calls += i;
            }
        }
    }

    /** Another class, which is loaded later still. */
    static final class Other {
        private static int calls;

        private Other() {}

        static void run() {
            for (int i = 0; i < 3; i++) {
                calls += i;
            }
        }
    }

    private static final class Loader extends ClassLoader {
        final CountDownLatch asked = new CountDownLatch(1);
        final CountDownLatch released = new CountDownLatch(1);

        Loader() {
            super(InFlight.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (name.equals("programs.InFlight$Base")) {
                asked.countDown();
                try {
                    released.await();
                } catch (InterruptedException e) {
                    throw new ClassNotFoundException(name, e);
                }
            }
            boolean isOwn = name.equals("programs.InFlight$Base") || name.equals("programs.InFlight$Late");
            return isOwn ? define(name) : super.loadClass(name, resolve);
        }

        private Class<?> define(String name) throws ClassNotFoundException {
            String file = name.substring(name.lastIndexOf('.') + 1) + ".class";
            try (InputStream in = InFlight.class.getResourceAsStream(file)) {
                byte[] bytes = in.readAllBytes();
                return defineClass(name, bytes, 0, bytes.length);
            } catch (IOException e) {
                throw new ClassNotFoundException(name, e);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        Loader loader = new Loader();
        Runnable[] late = new Runnable[1];
        Thread loading = new Thread(() -> {
            try {
                Class<?> found = loader.loadClass("programs.InFlight$Late");
                late[0] = (Runnable) found.getConstructor().newInstance();
            } catch (ReflectiveOperationException e) {
                e.printStackTrace();
            }
        });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            int count = words.length > 1 ? Integer.parseInt(words[1]) : 0;
            switch (words[0]) {
                case "load":
                    loading.start();
                    loader.asked.await();
                    break;
                case "release":
                    loader.released.countDown();
                    loading.join();
                    break;
                case "late":
                    for (int i = 0; i < count; i++) {
                        late[0].run();
                    }
                    break;
                default:
                    for (int i = 0; i < count; i++) {
                        Other.run();
                    }
            }
            System.out.println("done");
        }
    }
}
