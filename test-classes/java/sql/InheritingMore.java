package sql;

import java.sql.SQLException;

/** A statement that has a method of its own, and calls the inherited one. */
final class InheritingMore extends Inheriting {
    @Override
    public boolean execute(String text) throws SQLException {
        return super.execute(text);
    }
}
