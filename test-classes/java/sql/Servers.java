package sql;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * Executes statements at a server of PostgreSQL or MariaDB. Usage: {@code Servers}, with the URL in the variable
 * SERVER_URL, because command lines are in logs. It prints what it expects, without what the driver executes on its
 * own.
 */
public final class Servers {
    private Servers() {}

    public static void main(String[] args) throws SQLException {
        String url = System.getenv("SERVER_URL");
        boolean isPostgres = url.startsWith("jdbc:postgresql:");
        try (Connection connection = DriverManager.getConnection(url);
                Statement statement = connection.createStatement()) {
            statement.executeUpdate("drop table if exists item");
            Expected.runs("drop table if exists item");
            new Database("server", "").createItems(connection);
            try (PreparedStatement insert = connection.prepareStatement("insert into item values (?, ?, ?)")) {
                for (int i = 0; i < 20; i++) {
                    insert.setInt(1, 100 + i);
                    insert.setString(2, "SECRET_PARAMETER_15");
                    insert.setInt(3, i);
                    if (i < 10) {
                        Statements.check(insert.executeUpdate(), 1);
                        Expected.runs(Database.INSERT);
                    } else {
                        insert.addBatch();
                    }
                }
                Statements.check(insert.executeBatch().length, 10);
                Expected.runs(Database.INSERT);
                insert.setInt(1, 100);
                Expected.fails(Database.INSERT, insert::executeUpdate);
            }
            for (int prepares = 0; prepares < 3; prepares++) {
                try (PreparedStatement select =
                        connection.prepareStatement("select name from item where id = ?")) {
                    // PostgreSQL's driver prepares at the server from the fifth execution on.
                    for (int i = 0; i < 10; i++) {
                        select.setInt(1, 100 + i);
                        Statements.check(Statements.read(select.executeQuery()), 1);
                        Expected.runs(Database.SELECT);
                    }
                }
            }
            statement.addBatch("update item set name = 'SECRET_LITERAL_38' where id = 1");
            statement.addBatch("delete from item where id = 119");
            Statements.check(statement.executeBatch().length, 2);
            Expected.runs("update item set name = ? where id = ?; ...");
            statement.execute("update item set name = 'it''s SECRET_LITERAL_39' where id=1");
            Expected.runs("update item set name = ? where id=?");
            statement.executeUpdate("insert into item values (7, 'SECRET_LITERAL_40', 1)",
                    Statement.RETURN_GENERATED_KEYS);
            Expected.runs(Database.INSERT);
            Statements.check(statement.executeLargeUpdate("delete from item where id in (7, 8, 9)"), 1);
            Expected.runs("delete from item where id in (?, ...)");
            Expected.fails("selec ? frm item", () -> statement.execute("selec 'SECRET_LITERAL_41' frm item"));
            String literal = isPostgres ? "$x$SECRET_LITERAL_42$x$" : "\"SECRET_LITERAL_42\"";
            Statements.read(statement.executeQuery("select name from item where name <> " + literal));
            Expected.runs("select name from item where name <> ?");
            String sleep = isPostgres ? "pg_sleep" : "sleep";
            Statements.read(statement.executeQuery("select " + sleep + "(0.15)"));
            Expected.runs("select " + sleep + "(?)");
        }
        Expected.print();
    }
}
