package sql;

import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * Objects with the methods of statements: only statements count. Usage: {@code Others inherited}, {@code Others none}
 * or {@code Others siblings}.
 */
public final class Others {
    private Others() {}

    public static void main(String[] args) throws SQLException {
        int sum = 0;
        for (int i = 0; i < 1_000; i++) {
            Task task = new Task();
            sum += task.execute() ? task.executeUpdate() : 0;
            sum += task.execute("get SECRET_OTHER_1") ? 1 : 0;
            sum += task.executeUpdate("get SECRET_OTHER_2");
            sum += task.executeQuery("get SECRET_OTHER_3") == null ? 1 : 0;
            task.addBatch("get SECRET_OTHER_4");
            sum += task.executeBatch().length;
            sum += task.prepareStatement("get SECRET_OTHER_5") == null ? 1 : 0;
            sum += (int) task.executeLargeUpdate();
        }
        System.out.println("sum " + sum);
        switch (args[0]) {
            case "inherited":
                inherited();
                break;
            case "siblings":
                // Methods of the superclass run for them before a statement inherits them, and after that.
                siblings();
                inherited();
                siblings();
                break;
            default:
                break;
        }
        Expected.print();
    }

    /** As in SQLite's driver, the statement's superclass has the methods and is no statement. */
    private static void inherited() throws SQLException {
        WithMethods[] all = {new Inheriting(), new InheritingMore()};
        for (WithMethods each : all) {
            Statement statement = (Statement) each;
            for (int i = 0; i < 10; i++) {
                statement.execute("get 'SECRET_LITERAL_33'");
                statement.executeUpdate("put 'SECRET_LITERAL_34' at 1");
                each.execute("get 'SECRET_LITERAL_35'");
                int at = i;
                Expected.fails("fail ?", () -> statement.executeQuery("fail " + at));
            }
            Expected.runs("get ?", 20);
            Expected.runs("put ? at ?", 10);
        }
    }

    private static void siblings() throws SQLException {
        WithMethods sibling = new Sibling();
        for (int i = 0; i < 10; i++) {
            sibling.execute("get SECRET_OTHER_6");
            sibling.executeUpdate("get SECRET_OTHER_7");
        }
    }

    /** What is no statement. */
    private static final class Task {
        boolean execute() {
            return true;
        }

        int executeUpdate() {
            return 1;
        }

        long executeLargeUpdate() {
            return 1;
        }

        boolean execute(String text) {
            return text.isEmpty();
        }

        int executeUpdate(String text) {
            return text.length();
        }

        ResultSet executeQuery(String text) {
            return null;
        }

        void addBatch(String text) {}

        int[] executeBatch() {
            return new int[1];
        }

        java.sql.PreparedStatement prepareStatement(String text) {
            return null;
        }
    }

    /** Has the methods of a statement, and is none. */
    public abstract static class WithMethods {
        public boolean execute(String text) throws SQLException {
            return executeUpdate(text) > 0;
        }

        public int executeUpdate(String text) throws SQLException {
            if (text.startsWith("fail")) {
                throw new SQLException("as asked");
            }
            return text.length();
        }

        public ResultSet executeQuery(String text) throws SQLException {
            execute(text);
            return null;
        }
    }

    /** Is no statement either. */
    private static final class Sibling extends WithMethods {}
}
