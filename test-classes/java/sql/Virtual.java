package sql;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Statements of virtual threads that leave their carriers in the middle, and go on on others. Usage:
 * {@code Virtual THREADS}.
 */
public final class Virtual {
    private static final AtomicReference<Throwable> FAILED = new AtomicReference<>();

    private Virtual() {}

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[0]);
        Own.register();
        Database database = new Database("h2", "virtual");
        try (Connection connection = database.openWithItems()) {
            Nested.alias(connection, "pause", "pause");
        }
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            threads.add(start(i, () -> {
                try {
                    work(database);
                } catch (SQLException | RuntimeException | Error e) {
                    FAILED.set(e);
                }
            }));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        if (FAILED.get() != null) {
            throw new AssertionError(FAILED.get());
        }
        Expected.print();
    }

    private static void work(Database database) throws SQLException {
        try (Connection own = new Database("own", "").open();
                Connection h2 = database.open();
                PreparedStatement slow = own.prepareStatement("get sleep 150");
                PreparedStatement select = h2.prepareStatement("select name from item where id = ?");
                Statement statement = own.createStatement()) {
            for (int i = 0; i < 5; i++) {
                statement.execute("put 'SECRET_LITERAL_36' sleep 3");
                Expected.runs("put ? sleep ?");
                select.setInt(1, 1);
                Statements.read(select.executeQuery());
                Expected.runs(Database.SELECT);
                Expected.fails("fail ?", () -> statement.executeUpdate("fail 'SECRET_LITERAL_37'"));
            }
            slow.execute();
            Expected.runs("get sleep ?");
            try (Statement pause = h2.createStatement()) {
                Statements.read(pause.executeQuery("select pause(5)"));
                Expected.runs("select pause(?)");
            }
        }
    }

    /** {@code Thread.ofVirtual()}, which the compiler does not know in Java 11. */
    private static Thread start(int number, Runnable work) throws ReflectiveOperationException {
        Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
        Class<?> type = Class.forName("java.lang.Thread$Builder");
        type.getMethod("name", String.class).invoke(builder, "virtual-" + number);
        return (Thread) type.getMethod("start", Runnable.class).invoke(builder, work);
    }
}
