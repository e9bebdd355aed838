package sql;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;

/** A database in memory with a table of items. */
final class Database {
    static final String INSERT = "insert into item values (?, ...)";
    static final String SELECT = "select name from item where id = ?";

    private final String kind;
    private final String name;

    /** Its kind is {@code h2}, {@code sqlite} or {@code own}. */
    Database(String kind, String name) {
        this.kind = kind;
        this.name = name;
    }

    boolean isSqlite() {
        return kind.equals("sqlite");
    }

    /** Connects; SQLite has another database for each connection. */
    Connection open() throws SQLException {
        switch (kind) {
            case "sqlite":
                // The driver's own.
                Expected.runs("pragma busy_timeout=?");
                return DriverManager.getConnection("jdbc:sqlite::memory:");
            case "own":
                Own.register();
                return DriverManager.getConnection(Own.URL);
            default:
                return DriverManager.getConnection(url());
        }
    }

    /** That of H2. */
    String url() {
        return "jdbc:h2:mem:" + name + ";USER=sa;PASSWORD=SECRET_URL_1;DB_CLOSE_DELAY=-1";
    }

    /** Connects, and creates a table with two items. */
    Connection openWithItems() throws SQLException {
        Connection connection = open();
        createItems(connection);
        return connection;
    }

    void createItems(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("create table item(id int primary key, name varchar(40), amount int)");
            Expected.runs("create table item(id int primary key, name varchar(?), amount int)");
            statement.executeUpdate("insert into item values (1, 'SECRET_LITERAL_1', 10), (2, 'pen', 3)");
            inserted(INSERT, 1);
        }
    }

    /** Counts executions of a text that inserts: SQLite's driver runs another one in each. */
    void inserted(String text, long times) {
        Expected.runs(text, times);
        if (isSqlite()) {
            Expected.runs("SELECT last_insert_rowid();", times);
        }
    }
}
