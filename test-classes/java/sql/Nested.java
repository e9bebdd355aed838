package sql;

import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.concurrent.CountDownLatch;

/** Statements of H2 that call Java, and statements that another thread ends. */
public final class Nested {
    private static final String CANCELLED = "select sum(busy(?)) from system_range(?, ...)";

    private static final CountDownLatch STARTED = new CountDownLatch(1);

    private Nested() {}

    static void callable(Database database) throws SQLException {
        try (Connection connection = database.openWithItems()) {
            alias(connection, "add_up", "addUp");
            for (String text : new String[] {"{call add_up(?, ?)}", "call add_up(?, 5)"}) {
                try (CallableStatement call = connection.prepareCall(text)) {
                    for (int i = 0; i < 3; i++) {
                        call.setInt(1, i);
                        if (text.startsWith("{")) {
                            call.setInt(2, 5);
                            call.execute();
                            Expected.runs("{call add_up(?, ...)}");
                        } else {
                            Statements.check(Statements.read(call.executeQuery()), 1);
                            Expected.runs("call add_up(?, ...)");
                        }
                    }
                }
            }
        }
    }

    /** Statements within statements have another text, and count too. */
    static void nested(Database database) throws SQLException {
        try (Connection connection = database.openWithItems();
                Statement statement = connection.createStatement()) {
            alias(connection, "count_items", "countItems");
            alias(connection, "broken", "broken");
            statement.execute("create table audit(item int, what varchar)");
            Expected.runs("create table audit(item int, what varchar)");
            String trigger = "create trigger audits after insert on item for each row call \"sql.Aliases$Audit\"";
            statement.execute(trigger);
            Expected.runs(trigger);
            String insert = "insert into item values (?, ?, ?)";
            try (PreparedStatement prepared = connection.prepareStatement(insert)) {
                for (int i = 0; i < 12; i++) {
                    prepared.setInt(1, 300 + i);
                    prepared.setString(2, "SECRET_PARAMETER_13");
                    prepared.setInt(3, i);
                    if (i < 4) {
                        prepared.executeUpdate();
                        Expected.runs(Database.INSERT);
                    } else {
                        prepared.addBatch();
                    }
                }
                prepared.executeBatch();
                Expected.runs(Database.INSERT);
            }
            for (int i = 0; i < 5; i++) {
                Statements.read(statement.executeQuery("select count_items(), 'SECRET_LITERAL_24'"));
                Expected.runs("select count_items(), ?");
            }
            Expected.fails("select broken(), ?",
                    () -> statement.executeQuery("select broken(), 'SECRET_LITERAL_25'"));
            // Nothing of the one that failed is left.
            Statements.read(statement.executeQuery("select name from item where id = 1"));
            Expected.runs(Database.SELECT);
        }
    }

    /** Another thread cancels and closes a statement while it is executed. */
    static void closed(Database database) throws Exception {
        try (Connection connection = database.openWithItems();
                Statement statement = connection.createStatement()) {
            alias(connection, "busy", Nested.class.getName() + ".busy");
            Thread closing = new Thread(() -> {
                try {
                    STARTED.await();
                    statement.cancel();
                    statement.close();
                } catch (InterruptedException | SQLException e) {
                    throw new IllegalStateException(e);
                }
            });
            closing.start();
            Expected.fails(CANCELLED,
                    () -> statement.executeQuery("select sum(busy(2)) from system_range(1, 100000)"));
            closing.join();
            try (Statement other = connection.createStatement()) {
                Statements.read(other.executeQuery("select name from item where id = 1"));
                Expected.runs(Database.SELECT);
            }
        }
    }

    /** Called by H2 for each row. */
    public static int busy(int ms) {
        STARTED.countDown();
        return Aliases.pause(ms);
    }

    /** Makes a method known to H2: one of {@link Aliases}, unless it has the name of a class. */
    static void alias(Connection connection, String name, String method) throws SQLException {
        String full = method.contains(".") ? method : "sql.Aliases." + method;
        String text = "create alias " + name + " for \"" + full + "\"";
        try (Statement statement = connection.createStatement()) {
            statement.execute(text);
            Expected.runs(text);
        }
    }
}
