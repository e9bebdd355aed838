package agents;

import java.io.InputStream;
import java.lang.instrument.ClassDefinition;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.nio.charset.StandardCharsets;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

import truth.Main;

/**
 * Runs the programs of {@code truth}, as often as it takes until all their classes have been changed
 * so many times meanwhile. Prints how often they ran, how often they were changed, and how many
 * changed classes went by with probes and without.
 *
 * <p>Usage: {@code Again COUNTS ROUNDS CHANGES retransform|redefine}
 */
public final class Again {
    private static final Instrumentation INSTRUMENTATION = Agent.instrumentation();
    private static final AtomicInteger CHANGES = new AtomicInteger();
    private static final Map<Class<?>, byte[]> ORIGINALS = new HashMap<>();
    private static volatile boolean isOver;

    private Again() {}

    public static void main(String[] args) throws Exception {
        Observer observer = new Observer();
        INSTRUMENTATION.addTransformer(observer, true);
        int wanted = Integer.parseInt(args[2]);
        boolean redefine = args[3].equals("redefine");
        FutureTask<Void> changing = new FutureTask<>(() -> {
            while (!isOver) {
                long begun = System.nanoTime();
                change(redefine);
                CHANGES.incrementAndGet();
                // All threads stand still meanwhile. They get twice the time to go on.
                LockSupport.parkNanos(2 * (System.nanoTime() - begun));
            }
            return null;
        });
        new Thread(changing, "changing").start();
        int runs = 0;
        try {
            do {
                Main.main(new String[] {args[0], args[1]});
                runs++;
            } while (CHANGES.get() < wanted && !changing.isDone());
        } finally {
            isOver = true;
        }
        changing.get();
        System.out.println("runs " + runs);
        System.out.println("changes " + CHANGES);
        System.out.println("with " + observer.with);
        System.out.println("without " + observer.without);
    }

    /** Puts all classes of truth in place anew, as they are. */
    private static void change(boolean redefine) throws Exception {
        List<Class<?>> classes = new ArrayList<>();
        for (Class<?> loaded : INSTRUMENTATION.getAllLoadedClasses()) {
            // Those of lambdas have no class file.
            if (loaded.getName().startsWith("truth.") && !loaded.getName().contains("/")) {
                classes.add(loaded);
            }
        }
        if (!redefine) {
            INSTRUMENTATION.retransformClasses(classes.toArray(new Class<?>[0]));
            return;
        }
        List<ClassDefinition> definitions = new ArrayList<>();
        for (Class<?> loaded : classes) {
            byte[] original = ORIGINALS.get(loaded);
            if (original == null) {
                original = original(loaded);
                ORIGINALS.put(loaded, original);
            }
            definitions.add(new ClassDefinition(loaded, original));
        }
        INSTRUMENTATION.redefineClasses(definitions.toArray(new ClassDefinition[0]));
    }

    static byte[] original(Class<?> loaded) throws Exception {
        try (InputStream in = loaded.getResourceAsStream("/" + loaded.getName().replace('.', '/') + ".class")) {
            return in.readAllBytes();
        }
    }

    /** Looks at classes that are changed. */
    private static final class Observer implements ClassFileTransformer {
        private final AtomicInteger with = new AtomicInteger();
        private final AtomicInteger without = new AtomicInteger();

        @Override
        public byte[] transform(
                ClassLoader loader, String name, Class<?> changed, ProtectionDomain domain, byte[] bytes) {
            if (changed != null && name.startsWith("truth/") && !name.equals("truth/Count")) {
                boolean probes = new String(bytes, StandardCharsets.ISO_8859_1).contains("java/lang/invoke/$TProfiler");
                (probes ? with : without).incrementAndGet();
            }
            return null;
        }
    }
}
