package sql;

import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * Executes statements that do next to nothing, in one another, so often that the JIT puts their methods into each other:
 * of wrappers that send another text, of one object that calls itself, of a pool around a driver whose statements nobody
 * has prepared, and of a connection that calls a method named like its own. Usage: {@code Inlined N}.
 */
public final class Inlined {
    private static final int DEEPEST = 20;

    private Inlined() {}

    public static void main(String[] args) throws SQLException {
        int number = Integer.parseInt(args[0]);
        Statement wrapper = new Renaming(new Thin());
        Statement thin = new Thin();
        PreparedStatement pooled = new Pool().prepareStatement("select pooled");
        PreparedStatement checked = new Checking().prepareStatement("select checked");
        long sum = 0;
        for (int i = 0; i < number; i++) {
            sum += wrapper.executeUpdate("select outside");
        }
        for (int i = 0; i < number; i++) {
            sum += thin.executeUpdate("select itself", Statement.NO_GENERATED_KEYS);
        }
        for (int i = 0; i < number; i++) {
            sum += pooled.executeUpdate() + checked.executeUpdate();
        }
        int deep = number / 100;
        for (int i = 0; i < deep; i++) {
            sum += new Deep(0).executeUpdate(Deep.text(0));
        }
        System.out.println("sum " + sum);
        for (String text : new String[] {"outside", "inside", "itself", "pooled", "checked"}) {
            Expected.runs("select " + text, number);
        }
        for (int depth = 0; depth <= DEEPEST; depth++) {
            Expected.runs(Deep.text(depth), deep);
        }
        Expected.print();
    }

    private static class Thin extends WrappedStatement {
        private int count;

        Thin() {
            super(null, null);
        }

        @Override
        public int executeUpdate(String text) throws SQLException {
            return count++ & 1;
        }

        @Override
        public int executeUpdate(String text, int keys) throws SQLException {
            return executeUpdate(text);
        }
    }

    private static final class Renaming extends WrappedStatement {
        private final Statement inner;

        Renaming(Statement inner) {
            super(null, inner);
            this.inner = inner;
        }

        @Override
        public int executeUpdate(String text) throws SQLException {
            return inner.executeUpdate("select inside");
        }
    }

    private static final class Deep extends WrappedStatement {
        private final int depth;

        Deep(int depth) {
            super(null, null);
            this.depth = depth;
        }

        static String text(int depth) {
            return "select deep_" + (char) ('a' + depth);
        }

        @Override
        public int executeUpdate(String text) throws SQLException {
            return depth == DEEPEST ? 1 : new Deep(depth + 1).executeUpdate(text(depth + 1));
        }
    }

    private static class ThinPrepared extends WrappedPreparedStatement {
        private int count;

        ThinPrepared() {
            super(null, null);
        }

        @Override
        public int executeUpdate() throws SQLException {
            return count++ & 1;
        }
    }

    private static final class PooledPrepared extends WrappedPreparedStatement {
        private final PreparedStatement inner;

        PooledPrepared(PreparedStatement inner) {
            super(null, inner);
            this.inner = inner;
        }

        @Override
        public int executeUpdate() throws SQLException {
            return inner.executeUpdate();
        }
    }

    private static final class Pool extends WrappedConnection {
        Pool() {
            super(null);
        }

        @Override
        public PreparedStatement prepareStatement(String text) throws SQLException {
            return new PooledPrepared(new ThinPrepared());
        }
    }

    private static final class Checking extends WrappedConnection {
        Checking() {
            super(null);
        }

        @Override
        public PreparedStatement prepareStatement(String text) throws SQLException {
            return new Factory().prepareStatement("select never") == null ? null : new ThinPrepared();
        }
    }

    /** No connection. */
    private static final class Factory {
        PreparedStatement prepareStatement(String text) throws SQLException {
            return new ThinPrepared();
        }
    }
}
