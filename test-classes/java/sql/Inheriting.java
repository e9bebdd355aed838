package sql;

import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLWarning;
import java.sql.Statement;

/** A statement that inherits what executes, and nothing else. */
class Inheriting extends Others.WithMethods implements Statement {
    @Override
    public void addBatch(String first) {}

    @Override
    public void cancel() {}

    @Override
    public void clearBatch() {}

    @Override
    public void clearWarnings() {}

    @Override
    public void closeOnCompletion() {}

    @Override
    public void close() {}

    @Override
    public int[] executeBatch() {
        return null;
    }

    @Override
    public int executeUpdate(String first, int second) {
        return 0;
    }

    @Override
    public int executeUpdate(String first, int[] second) {
        return 0;
    }

    @Override
    public int executeUpdate(String first, String[] second) {
        return 0;
    }

    @Override
    public boolean execute(String first, int second) {
        return false;
    }

    @Override
    public boolean execute(String first, int[] second) {
        return false;
    }

    @Override
    public boolean execute(String first, String[] second) {
        return false;
    }

    @Override
    public Connection getConnection() {
        return null;
    }

    @Override
    public int getFetchDirection() {
        return 0;
    }

    @Override
    public int getFetchSize() {
        return 0;
    }

    @Override
    public ResultSet getGeneratedKeys() {
        return null;
    }

    @Override
    public int getMaxFieldSize() {
        return 0;
    }

    @Override
    public int getMaxRows() {
        return 0;
    }

    @Override
    public boolean getMoreResults() {
        return false;
    }

    @Override
    public boolean getMoreResults(int first) {
        return false;
    }

    @Override
    public int getQueryTimeout() {
        return 0;
    }

    @Override
    public int getResultSetConcurrency() {
        return 0;
    }

    @Override
    public int getResultSetHoldability() {
        return 0;
    }

    @Override
    public int getResultSetType() {
        return 0;
    }

    @Override
    public ResultSet getResultSet() {
        return null;
    }

    @Override
    public int getUpdateCount() {
        return 0;
    }

    @Override
    public SQLWarning getWarnings() {
        return null;
    }

    @Override
    public boolean isCloseOnCompletion() {
        return false;
    }

    @Override
    public boolean isClosed() {
        return false;
    }

    @Override
    public boolean isPoolable() {
        return false;
    }

    @Override
    public boolean isWrapperFor(Class<?> first) {
        return false;
    }

    @Override
    public void setCursorName(String first) {}

    @Override
    public void setEscapeProcessing(boolean first) {}

    @Override
    public void setFetchDirection(int first) {}

    @Override
    public void setFetchSize(int first) {}

    @Override
    public void setMaxFieldSize(int first) {}

    @Override
    public void setMaxRows(int first) {}

    @Override
    public void setPoolable(boolean first) {}

    @Override
    public void setQueryTimeout(int first) {}

    @Override
    public <T> T unwrap(Class<T> first) {
        return null;
    }
}
