package sql;

import java.io.InputStream;
import java.io.Reader;
import java.math.BigDecimal;
import java.net.URL;
import java.sql.Array;
import java.sql.Blob;
import java.sql.Clob;
import java.sql.Date;
import java.sql.NClob;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.Ref;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.RowId;
import java.sql.SQLException;
import java.sql.SQLXML;
import java.sql.Time;
import java.sql.Timestamp;
import java.util.Calendar;

/** A prepared statement that leaves everything to another one. */
class WrappedPreparedStatement extends WrappedStatement implements PreparedStatement {
    private final PreparedStatement statement;

    WrappedPreparedStatement(WrappedConnection connection, PreparedStatement statement) {
        super(connection, statement);
        this.statement = statement;
    }

    @Override
    public void addBatch() throws SQLException {
        statement.addBatch();
    }

    @Override
    public void clearParameters() throws SQLException {
        statement.clearParameters();
    }

    @Override
    public long executeLargeUpdate() throws SQLException {
        return statement.executeLargeUpdate();
    }

    @Override
    public ResultSet executeQuery() throws SQLException {
        return statement.executeQuery();
    }

    @Override
    public int executeUpdate() throws SQLException {
        return statement.executeUpdate();
    }

    @Override
    public boolean execute() throws SQLException {
        return statement.execute();
    }

    @Override
    public ResultSetMetaData getMetaData() throws SQLException {
        return statement.getMetaData();
    }

    @Override
    public ParameterMetaData getParameterMetaData() throws SQLException {
        return statement.getParameterMetaData();
    }

    @Override
    public void setArray(int first, Array second) throws SQLException {
        statement.setArray(first, second);
    }

    @Override
    public void setAsciiStream(int first, InputStream second) throws SQLException {
        statement.setAsciiStream(first, second);
    }

    @Override
    public void setAsciiStream(int first, InputStream second, int third) throws SQLException {
        statement.setAsciiStream(first, second, third);
    }

    @Override
    public void setAsciiStream(int first, InputStream second, long third) throws SQLException {
        statement.setAsciiStream(first, second, third);
    }

    @Override
    public void setBigDecimal(int first, BigDecimal second) throws SQLException {
        statement.setBigDecimal(first, second);
    }

    @Override
    public void setBinaryStream(int first, InputStream second) throws SQLException {
        statement.setBinaryStream(first, second);
    }

    @Override
    public void setBinaryStream(int first, InputStream second, int third) throws SQLException {
        statement.setBinaryStream(first, second, third);
    }

    @Override
    public void setBinaryStream(int first, InputStream second, long third) throws SQLException {
        statement.setBinaryStream(first, second, third);
    }

    @Override
    public void setBlob(int first, InputStream second) throws SQLException {
        statement.setBlob(first, second);
    }

    @Override
    public void setBlob(int first, InputStream second, long third) throws SQLException {
        statement.setBlob(first, second, third);
    }

    @Override
    public void setBlob(int first, Blob second) throws SQLException {
        statement.setBlob(first, second);
    }

    @Override
    public void setBoolean(int first, boolean second) throws SQLException {
        statement.setBoolean(first, second);
    }

    @Override
    public void setBytes(int first, byte[] second) throws SQLException {
        statement.setBytes(first, second);
    }

    @Override
    public void setByte(int first, byte second) throws SQLException {
        statement.setByte(first, second);
    }

    @Override
    public void setCharacterStream(int first, Reader second) throws SQLException {
        statement.setCharacterStream(first, second);
    }

    @Override
    public void setCharacterStream(int first, Reader second, int third) throws SQLException {
        statement.setCharacterStream(first, second, third);
    }

    @Override
    public void setCharacterStream(int first, Reader second, long third) throws SQLException {
        statement.setCharacterStream(first, second, third);
    }

    @Override
    public void setClob(int first, Reader second) throws SQLException {
        statement.setClob(first, second);
    }

    @Override
    public void setClob(int first, Reader second, long third) throws SQLException {
        statement.setClob(first, second, third);
    }

    @Override
    public void setClob(int first, Clob second) throws SQLException {
        statement.setClob(first, second);
    }

    @Override
    public void setDate(int first, Date second) throws SQLException {
        statement.setDate(first, second);
    }

    @Override
    public void setDate(int first, Date second, Calendar third) throws SQLException {
        statement.setDate(first, second, third);
    }

    @Override
    public void setDouble(int first, double second) throws SQLException {
        statement.setDouble(first, second);
    }

    @Override
    public void setFloat(int first, float second) throws SQLException {
        statement.setFloat(first, second);
    }

    @Override
    public void setInt(int first, int second) throws SQLException {
        statement.setInt(first, second);
    }

    @Override
    public void setLong(int first, long second) throws SQLException {
        statement.setLong(first, second);
    }

    @Override
    public void setNCharacterStream(int first, Reader second) throws SQLException {
        statement.setNCharacterStream(first, second);
    }

    @Override
    public void setNCharacterStream(int first, Reader second, long third) throws SQLException {
        statement.setNCharacterStream(first, second, third);
    }

    @Override
    public void setNClob(int first, Reader second) throws SQLException {
        statement.setNClob(first, second);
    }

    @Override
    public void setNClob(int first, Reader second, long third) throws SQLException {
        statement.setNClob(first, second, third);
    }

    @Override
    public void setNClob(int first, NClob second) throws SQLException {
        statement.setNClob(first, second);
    }

    @Override
    public void setNString(int first, String second) throws SQLException {
        statement.setNString(first, second);
    }

    @Override
    public void setNull(int first, int second) throws SQLException {
        statement.setNull(first, second);
    }

    @Override
    public void setNull(int first, int second, String third) throws SQLException {
        statement.setNull(first, second, third);
    }

    @Override
    public void setObject(int first, Object second) throws SQLException {
        statement.setObject(first, second);
    }

    @Override
    public void setObject(int first, Object second, int third) throws SQLException {
        statement.setObject(first, second, third);
    }

    @Override
    public void setObject(int first, Object second, int third, int fourth) throws SQLException {
        statement.setObject(first, second, third, fourth);
    }

    @Override
    public void setRef(int first, Ref second) throws SQLException {
        statement.setRef(first, second);
    }

    @Override
    public void setRowId(int first, RowId second) throws SQLException {
        statement.setRowId(first, second);
    }

    @Override
    public void setSQLXML(int first, SQLXML second) throws SQLException {
        statement.setSQLXML(first, second);
    }

    @Override
    public void setShort(int first, short second) throws SQLException {
        statement.setShort(first, second);
    }

    @Override
    public void setString(int first, String second) throws SQLException {
        statement.setString(first, second);
    }

    @Override
    public void setTimestamp(int first, Timestamp second) throws SQLException {
        statement.setTimestamp(first, second);
    }

    @Override
    public void setTimestamp(int first, Timestamp second, Calendar third) throws SQLException {
        statement.setTimestamp(first, second, third);
    }

    @Override
    public void setTime(int first, Time second) throws SQLException {
        statement.setTime(first, second);
    }

    @Override
    public void setTime(int first, Time second, Calendar third) throws SQLException {
        statement.setTime(first, second, third);
    }

    @Override
    public void setURL(int first, URL second) throws SQLException {
        statement.setURL(first, second);
    }

    @Override
    public void setUnicodeStream(int first, InputStream second, int third) throws SQLException {
        statement.setUnicodeStream(first, second, third);
    }
}
