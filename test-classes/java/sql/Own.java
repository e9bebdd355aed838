package sql;

import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.DriverPropertyInfo;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.logging.Logger;

/**
 * A driver without a database. A text with {@code sleep N} takes N milliseconds, in which a virtual thread leaves its
 * carrier; one with {@code fail} throws. There are no results.
 */
public final class Own implements Driver {
    static final String URL = "jdbc:own://user:SECRET_URL_2@host/db?password=SECRET_URL_3&ssl=true";

    private static boolean isRegistered;

    static synchronized void register() throws SQLException {
        if (!isRegistered) {
            DriverManager.registerDriver(new Own());
            isRegistered = true;
        }
    }

    @Override
    public Connection connect(String url, Properties info) {
        return acceptsURL(url) ? new OwnConnection(url) : null;
    }

    @Override
    public boolean acceptsURL(String url) {
        return url.startsWith("jdbc:own:");
    }

    @Override
    public DriverPropertyInfo[] getPropertyInfo(String url, Properties info) {
        return new DriverPropertyInfo[0];
    }

    @Override
    public int getMajorVersion() {
        return 1;
    }

    @Override
    public int getMinorVersion() {
        return 0;
    }

    @Override
    public boolean jdbcCompliant() {
        return false;
    }

    @Override
    public Logger getParentLogger() {
        return Logger.getGlobal();
    }

    private static int execute(String text) throws SQLException {
        if (text.contains("fail")) {
            throw new SQLException("failed");
        }
        int at = text.indexOf("sleep ");
        if (at >= 0) {
            Aliases.pause(Integer.parseInt(text.substring(at + 6).split("\\D")[0]));
        }
        return 1;
    }

    private static final class OwnConnection extends WrappedConnection {
        private final String url;
        private boolean isClosed;

        OwnConnection(String url) {
            super(null);
            this.url = url;
        }

        @Override
        public Statement createStatement() {
            return new OwnStatement(this);
        }

        @Override
        public PreparedStatement prepareStatement(String text) {
            return new OwnPrepared(this, text);
        }

        @Override
        public DatabaseMetaData getMetaData() {
            return (DatabaseMetaData) Proxy.newProxyInstance(
                    Own.class.getClassLoader(),
                    new Class<?>[] {DatabaseMetaData.class},
                    (proxy, method, arguments) -> {
                        switch (method.getName()) {
                            case "getURL":
                                return url;
                            case "getDatabaseProductName":
                                return "Own";
                            default:
                                throw new UnsupportedOperationException(method.getName());
                        }
                    });
        }

        @Override
        public void close() {
            isClosed = true;
        }

        @Override
        public boolean isClosed() {
            return isClosed;
        }
    }

    private static final class OwnStatement extends WrappedStatement {
        private final List<String> texts = new ArrayList<>();

        OwnStatement(WrappedConnection connection) {
            super(connection, null);
        }

        @Override
        public boolean execute(String text) throws SQLException {
            Own.execute(text);
            return false;
        }

        @Override
        public ResultSet executeQuery(String text) throws SQLException {
            Own.execute(text);
            return null;
        }

        @Override
        public int executeUpdate(String text) throws SQLException {
            return Own.execute(text);
        }

        @Override
        public void addBatch(String text) {
            texts.add(text);
        }

        @Override
        public int[] executeBatch() throws SQLException {
            int[] counts = new int[texts.size()];
            for (int i = 0; i < counts.length; i++) {
                counts[i] = Own.execute(texts.get(i));
            }
            texts.clear();
            return counts;
        }

        @Override
        public void close() {}
    }

    private static final class OwnPrepared extends WrappedPreparedStatement {
        private final String text;

        OwnPrepared(WrappedConnection connection, String text) {
            super(connection, null);
            this.text = text;
        }

        @Override
        public void setString(int index, String value) {}

        @Override
        public void setInt(int index, int value) {}

        @Override
        public boolean execute() throws SQLException {
            Own.execute(text);
            return false;
        }

        @Override
        public ResultSet executeQuery() throws SQLException {
            Own.execute(text);
            return null;
        }

        @Override
        public int executeUpdate() throws SQLException {
            return Own.execute(text);
        }

        @Override
        public void close() {}
    }
}
