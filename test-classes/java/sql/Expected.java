package sql;

import java.sql.SQLException;
import java.util.Map;
import java.util.TreeMap;

/** The executions that a program knows of, by text without literals. */
final class Expected {
    private static final Map<String, long[]> COUNTS = new TreeMap<>();

    private Expected() {}

    /** What throws an exception of a driver. */
    interface Action {
        void run() throws SQLException;
    }

    static void runs(String text) {
        runs(text, 1);
    }

    static void runs(String text, long times) {
        add(text, times, 0);
    }

    /** Runs what must fail. */
    static void fails(String text, Action action) {
        try {
            action.run();
        } catch (SQLException e) {
            add(text, 1, 1);
            return;
        }
        throw new AssertionError(text + " did not fail");
    }

    static synchronized void add(String text, long executions, long throwing) {
        long[] counts = COUNTS.computeIfAbsent(text, key -> new long[2]);
        counts[0] += executions;
        counts[1] += throwing;
    }

    /** Prints a line for each text: {@code expect EXECUTIONS THROWS TEXT}, with tabs between. */
    static synchronized void print() {
        COUNTS.forEach((text, counts) ->
                System.out.println("expect\t" + counts[0] + "\t" + counts[1] + "\t" + text));
    }
}
