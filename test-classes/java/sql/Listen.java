package sql;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * Executes statements as its stdin says, a line each, and answers each with its line: {@code old N} executes a
 * statement that was prepared at the start, {@code new N} prepares one for each, {@code plain N} has it in the text,
 * {@code begin MS} begins a statement that takes that long, in another thread, and {@code join} waits until it has
 * ended.
 */
public final class Listen {
    private Listen() {}

    public static void main(String[] args) throws Exception {
        Database database = new Database("h2", "listen");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        Thread begun = null;
        try (Connection connection = database.openWithItems();
                PreparedStatement old =
                        connection.prepareStatement("select amount from item where id = ?")) {
            Nested.alias(connection, "pause", "pause");
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split(" ");
                int number = words.length > 1 ? Integer.parseInt(words[1]) : 0;
                switch (words[0]) {
                    case "old":
                        for (int i = 0; i < number; i++) {
                            old.setInt(1, 1);
                            Statements.check(Statements.read(old.executeQuery()), 1);
                        }
                        break;
                    case "new":
                        for (int i = 0; i < number; i++) {
                            prepare(connection);
                        }
                        break;
                    case "plain":
                        plain(connection, number);
                        break;
                    case "begin":
                        begun = new Thread(() -> pause(database, number), "begun");
                        begun.start();
                        break;
                    case "join":
                        begun.join();
                        break;
                    default:
                        break;
                }
                System.out.println(line);
            }
        }
    }

    private static void prepare(Connection connection) throws SQLException {
        try (PreparedStatement select = connection.prepareStatement("select name from item where id = ?")) {
            select.setInt(1, 1);
            Statements.check(Statements.read(select.executeQuery()), 1);
        }
    }

    private static void plain(Connection connection, int number) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (int i = 0; i < number; i++) {
                Statements.read(statement.executeQuery("select id from item where name = 'SECRET_LITERAL_32'"));
            }
        }
    }

    private static void pause(Database database, int ms) {
        try (Connection connection = database.open();
                Statement statement = connection.createStatement()) {
            Statements.read(statement.executeQuery("select pause(" + ms + ")"));
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }
}
