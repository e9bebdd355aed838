package sql;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Statements behind objects that leave the work to a driver, and in several threads. */
final class Wrapping {
    private static final int THREADS = 4;

    private Wrapping() {}

    static void run(String mode, Database database) throws Exception {
        switch (mode) {
            case "pool":
                pool(database);
                break;
            case "proxy":
                try (Connection connection = database.openWithItems()) {
                    work(database, proxy(Connection.class, connection), 100);
                }
                break;
            case "wrapper":
                try (Connection connection = database.openWithItems()) {
                    work(database, new WrappedConnection(connection), 100);
                    work(database, new WrappedConnection(new WrappedConnection(connection)), 1_000);
                    Connection mixed = proxy(Connection.class, new WrappedConnection(connection));
                    work(database, mixed, 2_000);
                }
                break;
            case "commenting":
                try (Connection connection = database.openWithItems()) {
                    work(database, new CommentingConnection(connection), 100);
                }
                break;
            case "threads":
                threads(database);
                break;
            default:
                throw new IllegalArgumentException(mode);
        }
    }

    /** Adds a comment to each text, as tracing libraries do. */
    private static final class CommentingConnection extends WrappedConnection {
        CommentingConnection(Connection connection) {
            super(connection);
        }

        @Override
        String text(String text) {
            return "/* trace SECRET_COMMENT_4 */ " + text;
        }
    }

    /** An object that leaves all to another, and so do the statements that it returns. */
    private static <T> T proxy(Class<T> type, Object object) {
        Object proxy = Proxy.newProxyInstance(
                Wrapping.class.getClassLoader(),
                new Class<?>[] {type},
                (self, method, arguments) -> {
                    try {
                        Object result = method.invoke(object, arguments);
                        boolean isStatement = Statement.class.isAssignableFrom(method.getReturnType());
                        return isStatement ? proxy(method.getReturnType(), result) : result;
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                });
        return type.cast(proxy);
    }

    /** Executes statements of all kinds. */
    private static void work(Database database, Connection connection, int id) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement("insert into item values (?, ?, ?)")) {
            for (int i = 0; i < 10; i++) {
                insert.setInt(1, id + i);
                insert.setString(2, "SECRET_PARAMETER_14");
                insert.setInt(3, i);
                if (i < 5) {
                    insert.executeUpdate();
                    database.inserted(Database.INSERT, 1);
                } else {
                    insert.addBatch();
                }
            }
            insert.executeBatch();
            Expected.runs(Database.INSERT);
            insert.setInt(1, id);
            Expected.fails(Database.INSERT, insert::executeUpdate);
        }
        try (PreparedStatement select = connection.prepareStatement("select name from item where id = ?")) {
            for (int i = 0; i < 5; i++) {
                select.setInt(1, id + i);
                Statements.read(select.executeQuery());
                Expected.runs(Database.SELECT);
            }
        }
        try (Statement statement = connection.createStatement()) {
            statement.execute("update item set name = 'SECRET_LITERAL_26' where id = 1");
            Expected.runs("update item set name = ? where id = ?");
            statement.executeUpdate("update item set name = 'SECRET_LITERAL_27' where id = 1");
            Expected.runs("update item set name = ? where id = ?");
            Statements.read(statement.executeQuery("select name from item where name = 'SECRET_LITERAL_28'"));
            Expected.runs("select name from item where name = ?");
            statement.addBatch("update item set name = 'SECRET_LITERAL_29' where id = 1");
            statement.addBatch("delete from item where id = " + (id + 9));
            statement.executeBatch();
            Expected.runs("update item set name = ? where id = ?; ...");
            Expected.fails("selec ? frm item", () -> statement.execute("selec 'SECRET_LITERAL_30' frm item"));
        }
    }

    private static void pool(Database database) throws Exception {
        database.openWithItems().close();
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(database.url());
        config.setMaximumPoolSize(2);
        config.setPoolName("pool");
        try (HikariDataSource pool = new HikariDataSource(config)) {
            // Each thread takes a connection for each round.
            inThreads(thread -> {
                for (int round = 0; round < 20; round++) {
                    try (Connection connection = pool.getConnection()) {
                        work(database, connection, 10_000 * (thread + 1) + 100 * round);
                    }
                }
            });
        }
    }

    private static void threads(Database database) throws Exception {
        Connection shared = database.openWithItems();
        inThreads(thread -> {
            Connection own = database.isSqlite() ? database.openWithItems() : database.open();
            for (int round = 0; round < 10; round++) {
                work(database, own, 10_000 * (thread + 1) + 100 * round);
            }
            own.close();
            if (!database.isSqlite()) {
                work(database, shared, 100_000 * (thread + 1));
            }
        });
        shared.close();
    }

    /** Work of a thread. */
    interface Work {
        void run(int thread) throws Exception;
    }

    /** Runs it in several threads. */
    static void inThreads(Work work) throws InterruptedException, ExecutionException {
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        List<Future<Void>> results = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            int thread = i;
            Callable<Void> call = () -> {
                work.run(thread);
                return null;
            };
            results.add(threads.submit(call));
        }
        for (Future<Void> result : results) {
            result.get();
        }
        threads.shutdown();
    }
}
