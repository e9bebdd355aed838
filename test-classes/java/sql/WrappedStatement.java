package sql;

import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Statement;

/** A statement that leaves everything to another one. */
class WrappedStatement implements Statement {
    private final WrappedConnection connection;
    private final Statement statement;

    WrappedStatement(WrappedConnection connection, Statement statement) {
        this.connection = connection;
        this.statement = statement;
    }

    String text(String text) {
        return connection.text(text);
    }

    @Override
    public void addBatch(String first) throws SQLException {
        statement.addBatch(text(first));
    }

    @Override
    public void cancel() throws SQLException {
        statement.cancel();
    }

    @Override
    public void clearBatch() throws SQLException {
        statement.clearBatch();
    }

    @Override
    public void clearWarnings() throws SQLException {
        statement.clearWarnings();
    }

    @Override
    public void closeOnCompletion() throws SQLException {
        statement.closeOnCompletion();
    }

    @Override
    public void close() throws SQLException {
        statement.close();
    }

    @Override
    public int[] executeBatch() throws SQLException {
        return statement.executeBatch();
    }

    @Override
    public long[] executeLargeBatch() throws SQLException {
        return statement.executeLargeBatch();
    }

    @Override
    public long executeLargeUpdate(String first) throws SQLException {
        return statement.executeLargeUpdate(text(first));
    }

    @Override
    public long executeLargeUpdate(String first, int second) throws SQLException {
        return statement.executeLargeUpdate(text(first), second);
    }

    @Override
    public long executeLargeUpdate(String first, int[] second) throws SQLException {
        return statement.executeLargeUpdate(text(first), second);
    }

    @Override
    public long executeLargeUpdate(String first, String[] second) throws SQLException {
        return statement.executeLargeUpdate(text(first), second);
    }

    @Override
    public ResultSet executeQuery(String first) throws SQLException {
        return statement.executeQuery(text(first));
    }

    @Override
    public int executeUpdate(String first) throws SQLException {
        return statement.executeUpdate(text(first));
    }

    @Override
    public int executeUpdate(String first, int second) throws SQLException {
        return statement.executeUpdate(text(first), second);
    }

    @Override
    public int executeUpdate(String first, int[] second) throws SQLException {
        return statement.executeUpdate(text(first), second);
    }

    @Override
    public int executeUpdate(String first, String[] second) throws SQLException {
        return statement.executeUpdate(text(first), second);
    }

    @Override
    public boolean execute(String first) throws SQLException {
        return statement.execute(text(first));
    }

    @Override
    public boolean execute(String first, int second) throws SQLException {
        return statement.execute(text(first), second);
    }

    @Override
    public boolean execute(String first, int[] second) throws SQLException {
        return statement.execute(text(first), second);
    }

    @Override
    public boolean execute(String first, String[] second) throws SQLException {
        return statement.execute(text(first), second);
    }

    @Override
    public Connection getConnection() throws SQLException {
        return connection;
    }

    @Override
    public int getFetchDirection() throws SQLException {
        return statement.getFetchDirection();
    }

    @Override
    public int getFetchSize() throws SQLException {
        return statement.getFetchSize();
    }

    @Override
    public ResultSet getGeneratedKeys() throws SQLException {
        return statement.getGeneratedKeys();
    }

    @Override
    public int getMaxFieldSize() throws SQLException {
        return statement.getMaxFieldSize();
    }

    @Override
    public int getMaxRows() throws SQLException {
        return statement.getMaxRows();
    }

    @Override
    public boolean getMoreResults() throws SQLException {
        return statement.getMoreResults();
    }

    @Override
    public boolean getMoreResults(int first) throws SQLException {
        return statement.getMoreResults(first);
    }

    @Override
    public int getQueryTimeout() throws SQLException {
        return statement.getQueryTimeout();
    }

    @Override
    public int getResultSetConcurrency() throws SQLException {
        return statement.getResultSetConcurrency();
    }

    @Override
    public int getResultSetHoldability() throws SQLException {
        return statement.getResultSetHoldability();
    }

    @Override
    public int getResultSetType() throws SQLException {
        return statement.getResultSetType();
    }

    @Override
    public ResultSet getResultSet() throws SQLException {
        return statement.getResultSet();
    }

    @Override
    public int getUpdateCount() throws SQLException {
        return statement.getUpdateCount();
    }

    @Override
    public SQLWarning getWarnings() throws SQLException {
        return statement.getWarnings();
    }

    @Override
    public boolean isCloseOnCompletion() throws SQLException {
        return statement.isCloseOnCompletion();
    }

    @Override
    public boolean isClosed() throws SQLException {
        return statement.isClosed();
    }

    @Override
    public boolean isPoolable() throws SQLException {
        return statement.isPoolable();
    }

    @Override
    public boolean isWrapperFor(Class<?> first) throws SQLException {
        return statement.isWrapperFor(first);
    }

    @Override
    public void setCursorName(String first) throws SQLException {
        statement.setCursorName(first);
    }

    @Override
    public void setEscapeProcessing(boolean first) throws SQLException {
        statement.setEscapeProcessing(first);
    }

    @Override
    public void setFetchDirection(int first) throws SQLException {
        statement.setFetchDirection(first);
    }

    @Override
    public void setFetchSize(int first) throws SQLException {
        statement.setFetchSize(first);
    }

    @Override
    public void setMaxFieldSize(int first) throws SQLException {
        statement.setMaxFieldSize(first);
    }

    @Override
    public void setMaxRows(int first) throws SQLException {
        statement.setMaxRows(first);
    }

    @Override
    public void setPoolable(boolean first) throws SQLException {
        statement.setPoolable(first);
    }

    @Override
    public void setQueryTimeout(int first) throws SQLException {
        statement.setQueryTimeout(first);
    }

    @Override
    public <T> T unwrap(Class<T> first) throws SQLException {
        return statement.unwrap(first);
    }
}
