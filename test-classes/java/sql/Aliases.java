package sql;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import org.h2.api.Trigger;

/** What H2 calls in the middle of statements. */
public final class Aliases {
    static final String COUNT = "select count(*) from item";
    static final String AUDIT = "insert into audit(item, what) values (?, ...)";
    static final String BROKEN = "select no_such_column from item where name = ?";

    private Aliases() {}

    public static int pause(int ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
        return ms;
    }

    public static int pauseAndFail(int ms) {
        pause(ms);
        throw new IllegalStateException("as asked");
    }

    public static int addUp(int first, int second) {
        return first + second;
    }

    /** Another statement within the one that calls this. */
    public static int countItems(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet found = statement.executeQuery(COUNT)) {
            Expected.runs(COUNT);
            found.next();
            return found.getInt(1);
        }
    }

    /** A statement that fails within the one that calls this. */
    public static int broken(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.executeQuery("select no_such_column from item where name = 'SECRET_LITERAL_2'");
            return 0;
        } catch (SQLException e) {
            Expected.add(BROKEN, 1, 1);
            throw e;
        }
    }

    /** Notes what is inserted. */
    public static final class Audit implements Trigger {
        @Override
        public void fire(Connection connection, Object[] before, Object[] after) throws SQLException {
            String text = "insert into audit(item, what) values (?, 'SECRET_LITERAL_3')";
            try (PreparedStatement statement = connection.prepareStatement(text)) {
                statement.setInt(1, (Integer) after[0]);
                statement.executeUpdate();
                Expected.runs(AUDIT);
            }
        }
    }
}
