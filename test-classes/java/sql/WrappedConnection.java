package sql;

import java.sql.Array;
import java.sql.Blob;
import java.sql.CallableStatement;
import java.sql.Clob;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.NClob;
import java.sql.PreparedStatement;
import java.sql.SQLClientInfoException;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.SQLXML;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Struct;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Executor;

/** A connection that leaves everything to another one. */
class WrappedConnection implements Connection {
    private final Connection connection;

    WrappedConnection(Connection connection) {
        this.connection = connection;
    }

    /** What the wrapped connection gets instead of a text. */
    String text(String text) {
        return text;
    }

    @Override
    public void abort(Executor first) throws SQLException {
        connection.abort(first);
    }

    @Override
    public void clearWarnings() throws SQLException {
        connection.clearWarnings();
    }

    @Override
    public void close() throws SQLException {
        connection.close();
    }

    @Override
    public void commit() throws SQLException {
        connection.commit();
    }

    @Override
    public Array createArrayOf(String first, Object[] second) throws SQLException {
        return connection.createArrayOf(first, second);
    }

    @Override
    public Blob createBlob() throws SQLException {
        return connection.createBlob();
    }

    @Override
    public Clob createClob() throws SQLException {
        return connection.createClob();
    }

    @Override
    public NClob createNClob() throws SQLException {
        return connection.createNClob();
    }

    @Override
    public SQLXML createSQLXML() throws SQLException {
        return connection.createSQLXML();
    }

    @Override
    public Statement createStatement() throws SQLException {
        return new WrappedStatement(this, connection.createStatement());
    }

    @Override
    public Statement createStatement(int first, int second) throws SQLException {
        return new WrappedStatement(this, connection.createStatement(first, second));
    }

    @Override
    public Statement createStatement(int first, int second, int third) throws SQLException {
        return new WrappedStatement(this, connection.createStatement(first, second, third));
    }

    @Override
    public Struct createStruct(String first, Object[] second) throws SQLException {
        return connection.createStruct(first, second);
    }

    @Override
    public boolean getAutoCommit() throws SQLException {
        return connection.getAutoCommit();
    }

    @Override
    public String getCatalog() throws SQLException {
        return connection.getCatalog();
    }

    @Override
    public String getClientInfo(String first) throws SQLException {
        return connection.getClientInfo(first);
    }

    @Override
    public Properties getClientInfo() throws SQLException {
        return connection.getClientInfo();
    }

    @Override
    public int getHoldability() throws SQLException {
        return connection.getHoldability();
    }

    @Override
    public DatabaseMetaData getMetaData() throws SQLException {
        return connection.getMetaData();
    }

    @Override
    public int getNetworkTimeout() throws SQLException {
        return connection.getNetworkTimeout();
    }

    @Override
    public String getSchema() throws SQLException {
        return connection.getSchema();
    }

    @Override
    public int getTransactionIsolation() throws SQLException {
        return connection.getTransactionIsolation();
    }

    @Override
    public Map<String, Class<?>> getTypeMap() throws SQLException {
        return connection.getTypeMap();
    }

    @Override
    public SQLWarning getWarnings() throws SQLException {
        return connection.getWarnings();
    }

    @Override
    public boolean isClosed() throws SQLException {
        return connection.isClosed();
    }

    @Override
    public boolean isReadOnly() throws SQLException {
        return connection.isReadOnly();
    }

    @Override
    public boolean isValid(int first) throws SQLException {
        return connection.isValid(first);
    }

    @Override
    public boolean isWrapperFor(Class<?> first) throws SQLException {
        return connection.isWrapperFor(first);
    }

    @Override
    public String nativeSQL(String first) throws SQLException {
        return connection.nativeSQL(first);
    }

    @Override
    public CallableStatement prepareCall(String first) throws SQLException {
        return connection.prepareCall(first);
    }

    @Override
    public CallableStatement prepareCall(String first, int second, int third) throws SQLException {
        return connection.prepareCall(first, second, third);
    }

    @Override
    public CallableStatement prepareCall(String first, int second, int third, int fourth) throws SQLException {
        return connection.prepareCall(first, second, third, fourth);
    }

    @Override
    public PreparedStatement prepareStatement(String first) throws SQLException {
        return new WrappedPreparedStatement(this, connection.prepareStatement(text(first)));
    }

    @Override
    public PreparedStatement prepareStatement(String first, int second) throws SQLException {
        return new WrappedPreparedStatement(this, connection.prepareStatement(text(first), second));
    }

    @Override
    public PreparedStatement prepareStatement(String first, int second, int third) throws SQLException {
        return new WrappedPreparedStatement(this, connection.prepareStatement(text(first), second, third));
    }

    @Override
    public PreparedStatement prepareStatement(String first, int second, int third, int fourth) throws SQLException {
        return new WrappedPreparedStatement(this, connection.prepareStatement(text(first), second, third, fourth));
    }

    @Override
    public PreparedStatement prepareStatement(String first, int[] second) throws SQLException {
        return new WrappedPreparedStatement(this, connection.prepareStatement(text(first), second));
    }

    @Override
    public PreparedStatement prepareStatement(String first, String[] second) throws SQLException {
        return new WrappedPreparedStatement(this, connection.prepareStatement(text(first), second));
    }

    @Override
    public void releaseSavepoint(Savepoint first) throws SQLException {
        connection.releaseSavepoint(first);
    }

    @Override
    public void rollback() throws SQLException {
        connection.rollback();
    }

    @Override
    public void rollback(Savepoint first) throws SQLException {
        connection.rollback(first);
    }

    @Override
    public void setAutoCommit(boolean first) throws SQLException {
        connection.setAutoCommit(first);
    }

    @Override
    public void setCatalog(String first) throws SQLException {
        connection.setCatalog(first);
    }

    @Override
    public void setClientInfo(String first, String second) throws SQLClientInfoException {
        connection.setClientInfo(first, second);
    }

    @Override
    public void setClientInfo(Properties first) throws SQLClientInfoException {
        connection.setClientInfo(first);
    }

    @Override
    public void setHoldability(int first) throws SQLException {
        connection.setHoldability(first);
    }

    @Override
    public void setNetworkTimeout(Executor first, int second) throws SQLException {
        connection.setNetworkTimeout(first, second);
    }

    @Override
    public void setReadOnly(boolean first) throws SQLException {
        connection.setReadOnly(first);
    }

    @Override
    public Savepoint setSavepoint() throws SQLException {
        return connection.setSavepoint();
    }

    @Override
    public Savepoint setSavepoint(String first) throws SQLException {
        return connection.setSavepoint(first);
    }

    @Override
    public void setSchema(String first) throws SQLException {
        connection.setSchema(first);
    }

    @Override
    public void setTransactionIsolation(int first) throws SQLException {
        connection.setTransactionIsolation(first);
    }

    @Override
    public void setTypeMap(Map<String, Class<?>> first) throws SQLException {
        connection.setTypeMap(first);
    }

    @Override
    public <T> T unwrap(Class<T> first) throws SQLException {
        return connection.unwrap(first);
    }
}
