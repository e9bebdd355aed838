package truth;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;

/**
 * What the programs count of themselves. It is never instrumented. A method is named as the profile
 * names it: class, method and descriptor with spaces between them.
 */
public final class Count {
    private static final Map<String, LongAdder> CALLS = new ConcurrentHashMap<>();
    private static final Map<String, LongAdder> THROWS = new ConcurrentHashMap<>();

    private Count() {}

    /** A method was entered. */
    public static void call(String method) {
        CALLS.computeIfAbsent(method, m -> new LongAdder()).increment();
    }

    /** An exception is about to leave a method. */
    public static void thrown(String method) {
        THROWS.computeIfAbsent(method, m -> new LongAdder()).increment();
    }

    /** Calls of a method that could not count them by calling. */
    static void add(String method, long calls, long thrown) {
        CALLS.computeIfAbsent(method, m -> new LongAdder()).add(calls);
        THROWS.computeIfAbsent(method, m -> new LongAdder()).add(thrown);
    }

    /** Writes all counts to a file: a line per method, with calls and throws. */
    public static void write(String file) {
        StringBuilder text = new StringBuilder();
        for (Map.Entry<String, LongAdder> entry : new TreeMap<>(CALLS).entrySet()) {
            LongAdder thrown = THROWS.getOrDefault(entry.getKey(), new LongAdder());
            text.append(entry.getKey()).append(' ').append(entry.getValue()).append(' ').append(thrown).append('\n');
        }
        try {
            Files.writeString(Path.of(file), text);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
