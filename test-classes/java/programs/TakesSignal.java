package programs;

import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Works until a file appears. As soon as a file {@code take} lies beside it, it ignores a signal.
 *
 * <p>Usage: {@code TakesSignal SIGNAL FILE}.
 */
public final class TakesSignal {
    private static long sum;

    private TakesSignal() {}

    public static void main(String[] args) throws Exception {
        Path stop = Path.of(args[1]);
        Path take = stop.resolveSibling("take");
        boolean isTaken = false;
        while (!Files.exists(stop)) {
            work();
            if (!isTaken && Files.exists(take)) {
                ignore(args[0]);
                isTaken = true;
            }
        }
        System.out.println(sum != 0);
    }

    /** {@code Signal.handle(new Signal(name), SignalHandler.SIG_IGN)}; javac warns of this API. */
    static void ignore(String name) throws ReflectiveOperationException {
        Class<?> signal = Class.forName("sun.misc.Signal");
        Class<?> handler = Class.forName("sun.misc.SignalHandler");
        Object ignores = handler.getField("SIG_IGN").get(null);
        Object of = signal.getConstructor(String.class).newInstance(name);
        signal.getMethod("handle", signal, handler).invoke(null, of, ignores);
    }

    private static void work() {
        for (int i = 0; i < 100_000; i++) {
            sum += i ^ sum;
        }
    }
}
