package sql;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

/**
 * Connects with passwords in URLs, and executes a text at each. Usage: {@code Urls}; prints a line
 * {@code url START TEXT} for each, with tabs between: the start of the URL without secrets.
 */
public final class Urls {
    private Urls() {}

    public static void main(String[] args) throws SQLException {
        Own.register();
        Properties properties = new Properties();
        properties.setProperty("user", "sa");
        properties.setProperty("password", "SECRET_URL_1");
        String[][] all = {
            {"jdbc:h2:mem:first;USER=sa;PASSWORD=SECRET_URL_1", "jdbc:h2:mem:first", "select 1 as alpha"},
            {"jdbc:h2:mem:second", "jdbc:h2:mem:second", "select 1 as beta"},
            {Own.URL, "jdbc:own://host/db", "get first"},
            {"jdbc:own://user:SECRET_URL_5@other:1234/db;password=SECRET_URL_6", "jdbc:own://other:1234/db",
                "get second"},
            {"jdbc:own:user/SECRET_URL_7@//third:1521/db", "jdbc:own:", "get third"},
            {"jdbc:own://[::1]:99/db?a=1&PassWord=SECRET_URL_8&b=2", "jdbc:own://[::1]:99/db", "get fourth"},
        };
        for (String[] each : all) {
            boolean isPlain = each[1].endsWith("second");
            try (Connection connection = isPlain
                            ? DriverManager.getConnection(each[0], properties)
                            : DriverManager.getConnection(each[0]);
                    Statement statement = connection.createStatement();
                    PreparedStatement prepared = connection.prepareStatement(each[2])) {
                statement.execute(each[2]);
                prepared.execute();
                prepared.execute();
                String text = each[2].replace('1', '?');
                Expected.runs(text, 3);
                System.out.println("url\t" + each[1] + "\t" + text);
            }
        }
        Expected.print();
    }
}
