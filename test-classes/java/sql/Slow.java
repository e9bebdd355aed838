package sql;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * Executes statements of 150 ms, and quick ones in between. Usage: {@code Slow}; prints, with tabs between,
 * {@code slow EXECUTIONS THROWS THREAD METHOD TEXT} for each text, and then what is expected of all.
 */
public final class Slow {
    private static final int MS = 150;

    private Slow() {}

    public static void main(String[] args) throws Exception {
        Database database = new Database("h2", "slow");
        try (Connection connection = database.openWithItems()) {
            Nested.alias(connection, "pause", "pause");
            Nested.alias(connection, "pause_and_fail", "pauseAndFail");
            for (int i = 0; i < 3; i++) {
                plain(connection);
                quick(connection);
            }
            expect("slow\t3\t0\tmain\tplain\tselect pause(?), ?");
            prepared(connection);
            expect("slow\t2\t0\tmain\tprepared\tselect pause(?)");
            batch(connection);
            expect("slow\t1\t0\tmain\tbatch\tcall pause(?)");
            failing(connection);
            expect("slow\t1\t1\tmain\tfailing\tselect pause_and_fail(?)");
            Thread thread = new Thread(() -> other(database), "other");
            thread.start();
            thread.join();
            expect("slow\t2\t0\tother\tother\tselect pause(?), name from item where id = ?");
        }
        Expected.print();
    }

    /** Prints a line, and expects the executions that it tells of. */
    private static void expect(String line) {
        System.out.println(line);
        String[] words = line.split("\t");
        Expected.add(words[5], Long.parseLong(words[1]), Long.parseLong(words[2]));
    }

    private static void plain(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            Statements.read(statement.executeQuery("select pause(" + MS + "), 'SECRET_LITERAL_31'"));
        }
    }

    private static void prepared(Connection connection) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("select pause(?)")) {
            for (int i = 0; i < 2; i++) {
                statement.setInt(1, MS);
                Statements.read(statement.executeQuery());
            }
        }
    }

    private static void batch(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.addBatch("call pause(" + MS / 2 + ")");
            statement.addBatch("call pause(" + MS / 2 + ")");
            statement.executeBatch();
        }
    }

    private static void failing(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("select pause_and_fail(" + MS + ")");
            throw new AssertionError("it did not fail");
        } catch (SQLException e) {
            // It must be thrown.
        }
    }

    private static void other(Database database) {
        String text = "select pause(" + MS + "), name from item where id = ?";
        try (Connection connection = database.open();
                PreparedStatement statement = connection.prepareStatement(text)) {
            for (int i = 0; i < 2; i++) {
                statement.setInt(1, 1);
                Statements.read(statement.executeQuery());
            }
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void quick(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            Statements.read(statement.executeQuery("select name from item where id = 1"));
            Expected.runs(Database.SELECT);
        }
    }
}
