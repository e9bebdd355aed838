package workloads;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Arrays;
import java.util.Random;

/**
 * Transactions like those of TPC-C on H2 in memory, in one thread: new orders of ten lines, payments,
 * and looking up the last order of a customer. Transactions a second, and their times in microseconds.
 *
 * <p>Usage: {@code Bank SECONDS [WARM_UP]}, a warm-up of twice as long if nothing is said
 */
public final class Bank {
    private static final int ITEMS = 5_000;
    private static final int CUSTOMERS = 1_000;

    private final Connection connection;
    private final Random random = new Random(42);
    private int orders;

    private Bank(Connection connection) {
        this.connection = connection;
    }

    public static void main(String[] args) throws Exception {
        double seconds = Double.parseDouble(args[0]);
        double warmUp = args.length > 1 ? Double.parseDouble(args[1]) : 2 * seconds;
        try (Connection connection = DriverManager.getConnection("jdbc:h2:mem:bank")) {
            connection.setAutoCommit(false);
            Bank bank = new Bank(connection);
            bank.fill();
            bank.run(warmUp / 2);
            Figures.ready();
            bank.run(warmUp / 2);
            long[] times = bank.run(seconds);
            Figures.print("transactions_per_second", times.length / seconds);
            Figures.print("p50_us", times[times.length / 2] / 1e3);
            Figures.print("p99_us", times[(int) (times.length * 0.99)] / 1e3);
        }
    }

    private void fill() throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("create table customer (id int primary key, name varchar(30), balance decimal(12, 2))");
            statement.execute("create table item (id int primary key, price decimal(8, 2), stock int)");
            statement.execute("create table orders (id int primary key, customer int, total decimal(12, 2))");
            statement.execute("create table line (orders int, number int, item int, amount decimal(8, 2), "
                + "primary key (orders, number))");
            statement.execute("create index of_customer on orders (customer)");
        }
        for (int id = 0; id < CUSTOMERS; id++) {
            update("insert into customer values (?, ?, 0)", id, "customer " + id);
        }
        for (int id = 0; id < ITEMS; id++) {
            update("insert into item values (?, ?, 1000)", id, 1 + id % 97);
        }
        connection.commit();
    }

    /** The times of all transactions, sorted. */
    private long[] run(double seconds) throws SQLException {
        long[] times = new long[1 << 16];
        int count = 0;
        long begin = System.nanoTime();
        for (long end = begin + (long) (seconds * 1e9); begin < end; count++) {
            int customer = random.nextInt(CUSTOMERS);
            switch (random.nextInt(10)) {
                case 0: case 1: case 2: case 3:
                    order(customer);
                    break;
                case 4: case 5: case 6: case 7:
                    pay(customer);
                    break;
                default:
                    look(customer);
            }
            connection.commit();
            long now = System.nanoTime();
            if (count == times.length) {
                times = Arrays.copyOf(times, 2 * count);
            }
            times[count] = now - begin;
            begin = now;
        }
        long[] all = Arrays.copyOf(times, count);
        Arrays.sort(all);
        return all;
    }

    private void order(int customer) throws SQLException {
        int order = orders++;
        long total = 0;
        for (int number = 0; number < 10; number++) {
            int item = random.nextInt(ITEMS);
            long price = ask("select price from item where id = ?", item);
            update("update item set stock = case when stock > 10 then stock - 1 else 1000 end where id = ?", item);
            update("insert into line values (?, ?, ?, ?)", order, number, item, price);
            total += price;
        }
        update("insert into orders values (?, ?, ?)", order, customer, total);
        if (order >= 2_000) {
            update("delete from line where orders = ?", order - 2_000);
            update("delete from orders where id = ?", order - 2_000);
        }
    }

    private void pay(int customer) throws SQLException {
        update("update customer set balance = balance - ? where id = ?", 1 + random.nextInt(100), customer);
        ask("select balance from customer where id = ?", customer);
    }

    private void look(int customer) throws SQLException {
        long order = ask("select max(id) from orders where customer = ?", customer);
        ask("select sum(amount) from line where orders = ?", (int) order);
    }

    private void update(String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = prepared(sql, values)) {
            statement.executeUpdate();
        }
    }

    private long ask(String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = prepared(sql, values); ResultSet result = statement.executeQuery()) {
            return result.next() ? result.getLong(1) : 0;
        }
    }

    private PreparedStatement prepared(String sql, Object... values) throws SQLException {
        PreparedStatement statement = connection.prepareStatement(sql);
        for (int i = 0; i < values.length; i++) {
            statement.setObject(i + 1, values[i]);
        }
        return statement;
    }
}
