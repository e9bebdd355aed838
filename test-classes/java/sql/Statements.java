package sql;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * Executes statements, and prints how often each text was executed. Usage: {@code Statements DATABASE MODE}; databases
 * are {@code h2} and {@code sqlite}.
 */
public final class Statements {
    private final Database database;
    private final Connection connection;

    private Statements(Database database) throws SQLException {
        this.database = database;
        connection = database.openWithItems();
    }

    public static void main(String[] args) throws Exception {
        String[] modes = {args[1]};
        if (args[1].equals("all")) {
            modes = args[0].equals("h2")
                    ? new String[] {
                        "prepared", "plain", "keys", "batch", "failing", "callable", "nested", "closed", "pool",
                        "proxy", "wrapper", "threads",
                    }
                    : new String[] {"prepared", "plain", "keys", "batch", "failing", "proxy", "wrapper", "threads"};
        }
        for (String mode : modes) {
            run(mode, new Database(args[0], mode));
        }
        Expected.print();
    }

    private static void run(String mode, Database database) throws Exception {
        switch (mode) {
            case "prepared":
                new Statements(database).prepared();
                break;
            case "plain":
                new Statements(database).plain();
                break;
            case "keys":
                new Statements(database).keys();
                break;
            case "batch":
                new Statements(database).batch();
                break;
            case "failing":
                new Statements(database).failing();
                break;
            case "callable":
                Nested.callable(database);
                break;
            case "nested":
                Nested.nested(database);
                break;
            case "closed":
                Nested.closed(database);
                break;
            default:
                Wrapping.run(mode, database);
        }
    }

    private void prepared() throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement("insert into item values (?, ?, ?)")) {
            for (int i = 0; i < 10; i++) {
                insert.setInt(1, 100 + i);
                insert.setString(2, "SECRET_PARAMETER_" + i);
                insert.setInt(3, i);
                check(insert.executeUpdate(), 1);
            }
            insert.setInt(1, 110);
            check(insert.executeLargeUpdate(), 1);
            database.inserted(Database.INSERT, 11);
        }
        String[] sameTexts = {
            "select name from item where id = ?",
            "select name from item where id = ?",
            "  select  name\n\tfrom item /* SECRET_COMMENT_1 */ where id = ?\n",
            "select name -- SECRET_COMMENT_2\nfrom item where id = 1",
        };
        for (String text : sameTexts) {
            try (PreparedStatement select = connection.prepareStatement(text)) {
                for (int i = 0; i < 2; i++) {
                    if (select.getParameterMetaData().getParameterCount() == 1) {
                        select.setInt(1, 100 + i);
                    }
                    read(select.executeQuery());
                    Expected.runs(Database.SELECT);
                }
            }
        }
        String update = "update item set amount = amount + 5 where name = ? or name = 'SECRET_LITERAL_4'";
        try (PreparedStatement statement = connection.prepareStatement(update)) {
            statement.setString(1, "SECRET_PARAMETER_3");
            check(statement.execute() ? 1 : 0, 0);
            check(statement.executeUpdate(), 1);
            Expected.runs("update item set amount = amount + ? where name = ? or name = ?", 2);
        }
        int resultSet = ResultSet.TYPE_FORWARD_ONLY;
        String typed = "select amount from item where amount > ? and name <> 'SECRET_LITERAL_5'";
        try (PreparedStatement statement =
                connection.prepareStatement(typed, resultSet, ResultSet.CONCUR_READ_ONLY)) {
            statement.setInt(1, 3);
            check(statement.execute() ? 1 : 0, 1);
            read(statement.getResultSet());
            Expected.runs("select amount from item where amount > ? and name <> ?");
        }
    }

    private void plain() throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String name : new String[] {"SECRET_LITERAL_6", "it''s SECRET_LITERAL_7", "é"}) {
                read(statement.executeQuery("select id from item where name = '" + name + "' or amount = 12345"));
                Expected.runs("select id from item where name = ? or amount = ?");
            }
            check(statement.execute("update item set name='SECRET_LITERAL_8' where id=2") ? 1 : 0, 0);
            Expected.runs("update item set name=? where id=?");
            check(statement.execute("select name from item where id = 2") ? 1 : 0, 1);
            read(statement.getResultSet());
            Expected.runs(Database.SELECT);
            check(statement.executeUpdate("delete from item where id in (97, 98, 99)"), 0);
            Expected.runs("delete from item where id in (?, ...)");
            check(statement.executeUpdate("delete from item where id in (97)"), 0);
            Expected.runs("delete from item where id in (?)");
            check(statement.executeUpdate("insert into item values (11, 'SECRET_LITERAL_9', 1), (12, 'x', 2)"), 2);
            check(statement.executeUpdate("insert into item values (13, 'SECRET_LITERAL_10', 1)"), 1);
            database.inserted(Database.INSERT, 2);
            check(statement.executeLargeUpdate("update item set amount = 1.5e3 where id = 11"), 1);
            Expected.runs("update item set amount = ? where id = ?");
            read(statement.executeQuery("select \"NAME\", x'5345' from item where id=11 -- SECRET_COMMENT_3"));
            // SQLite may take it for a literal.
            String name = database.isSqlite() ? "?" : "\"NAME\"";
            Expected.runs("select " + name + ", x? from item where id=?");
            if (!database.isSqlite()) {
                read(statement.executeQuery("select $$SECRET_LITERAL_11$$ from item where id = 11"));
                Expected.runs("select ? from item where id = ?");
            }
        }
    }

    private void keys() throws SQLException {
        int keys = Statement.RETURN_GENERATED_KEYS;
        boolean isSqlite = database.isSqlite();
        String create = isSqlite
                ? "create table note(id integer primary key autoincrement, text varchar)"
                : "create table note(id int auto_increment primary key, text varchar)";
        String insert = "insert into note(text) values ('SECRET_LITERAL_12')";
        String inserts = "insert into note(text) values (?)";
        int times = 3;
        try (Statement statement = connection.createStatement()) {
            statement.execute(create);
            Expected.runs(create);
            statement.executeUpdate(insert, keys);
            read(statement.getGeneratedKeys());
            statement.execute(insert, keys);
            statement.executeLargeUpdate(insert, keys);
            if (!isSqlite) {
                int[] columns = {1};
                String[] names = {"ID"};
                statement.executeUpdate(insert, columns);
                statement.executeUpdate(insert, names);
                read(statement.getGeneratedKeys());
                statement.execute(insert, columns);
                statement.execute(insert, names);
                statement.executeLargeUpdate(insert, columns);
                statement.executeLargeUpdate(insert, names);
                times += 6;
            }
        }
        PreparedStatement[] prepared = {
            connection.prepareStatement("insert into note(text) values (?)", keys),
            connection.prepareStatement("insert into note(text) values (?)", new int[] {1}),
            connection.prepareStatement("insert into note(text) values (?)", new String[] {"ID"}),
        };
        for (PreparedStatement statement : prepared) {
            statement.setString(1, "SECRET_PARAMETER_10");
            check(statement.executeUpdate(), 1);
            read(statement.getGeneratedKeys());
            statement.close();
            times++;
        }
        database.inserted(inserts, times);
    }

    private void batch() throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement("insert into item values (?, ?, ?)")) {
            for (int batch = 0; batch < 3; batch++) {
                for (int i = 0; i < 20; i++) {
                    insert.setInt(1, 100 + 20 * batch + i);
                    insert.setString(2, "SECRET_PARAMETER_11");
                    insert.setInt(3, i);
                    insert.addBatch();
                }
                long count = batch < 2 ? insert.executeBatch().length : insert.executeLargeBatch().length;
                check(count, 20);
                Expected.runs(Database.INSERT);
            }
        }
        try (Statement statement = connection.createStatement()) {
            // They differ in literals only.
            statement.addBatch("update item set amount = 1 where name = 'SECRET_LITERAL_13'");
            statement.addBatch("update item set amount = 2 where name = 'SECRET_LITERAL_14'");
            check(statement.executeBatch().length, 2);
            Expected.runs("update item set amount = ? where name = ?");
            statement.addBatch("delete from item where name = 'SECRET_LITERAL_15'");
            statement.addBatch("update item set amount = 1 where name = 'SECRET_LITERAL_16'");
            statement.addBatch("delete from item where id = 1000");
            check(statement.executeBatch().length, 3);
            Expected.runs("delete from item where name = ?; ...");
            statement.addBatch("delete from item where amount = 2000");
            check(statement.executeBatch().length, 1);
            Expected.runs("delete from item where amount = ?");
            statement.addBatch("delete from item where amount = 3000 and id = 1");
            statement.clearBatch();
            statement.addBatch("update item set name = 'SECRET_LITERAL_17' where amount = 3000");
            check(statement.executeLargeBatch().length, 1);
            Expected.runs("update item set name = ? where amount = ?");
            // Another text before the batch.
            statement.addBatch("delete from item where amount = 2000");
            read(statement.executeQuery("select name from item where id = 1"));
            Expected.runs(Database.SELECT);
            if (!database.isSqlite()) {
                check(statement.executeBatch().length, 1);
                Expected.runs("delete from item where amount = ?");
            }
        }
        try (Statement statement = connection.createStatement()) {
            statement.addBatch("insert into item values (50, 'SECRET_LITERAL_18', 1)");
            statement.addBatch("insert into item values (50, 'SECRET_LITERAL_19', 1)");
            Expected.fails(Database.INSERT, statement::executeBatch);
        }
    }

    private void failing() throws SQLException {
        try (Statement statement = connection.createStatement()) {
            Expected.fails("selec ? frm item", () -> statement.execute("selec 'SECRET_LITERAL_20' frm item"));
            Expected.fails("select none from item where name = ?",
                    () -> statement.executeQuery("select none from item where name = 'SECRET_LITERAL_21'"));
            Expected.fails(Database.INSERT,
                    () -> statement.executeUpdate("insert into item values (1, 'SECRET_LITERAL_22', 1)"));
            if (!database.isSqlite()) {
                Expected.fails("delete from item where id = ?",
                        () -> statement.executeQuery("delete from item where id = 77"));
                statement.close();
                Expected.fails(Database.SELECT,
                        () -> statement.executeQuery("select name from item where id = 5"));
            }
        }
        try (PreparedStatement insert = connection.prepareStatement("insert into item values (?, ?, ?)")) {
            for (int i = 0; i < 5; i++) {
                insert.setInt(1, i % 2 + 1);
                insert.setString(2, "SECRET_PARAMETER_12");
                insert.setInt(3, 1);
                Expected.fails(Database.INSERT, insert::executeUpdate);
            }
            insert.setInt(1, 200);
            insert.executeUpdate();
            database.inserted(Database.INSERT, 1);
        }
        // Not prepared, so not executed.
        try {
            connection.prepareStatement("selec 'SECRET_LITERAL_23' frm item");
            throw new AssertionError("a syntax error was prepared");
        } catch (SQLException e) {
            // It must be thrown.
        }
    }

    static void check(long found, long expected) {
        if (found != expected) {
            throw new AssertionError(found + " instead of " + expected);
        }
    }

    /** Reads all rows. */
    static int read(ResultSet results) throws SQLException {
        int rows = 0;
        while (results.next()) {
            results.getString(1);
            rows++;
        }
        results.close();
        return rows;
    }
}
