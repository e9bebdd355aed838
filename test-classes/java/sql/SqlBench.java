package sql;

import java.lang.management.ManagementFactory;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Executes statements of H2 in memory for some seconds: seven of eight are prepared selects of one row; the others are
 * plain inserts, selects and deletes. Usage: {@code SqlBench SECONDS [THREADS [RATE]]}, with a rate of statements a
 * second for each thread, or 0 (default) for as many as it can. After a second of warming up it prints
 * {@code statements N}, {@code per_second N} and {@code cpu_ns N}: CPU time of the process per statement.
 */
public final class SqlBench {
    private static final int ROWS = 1_000;
    private static final int ROUND = 32;

    private static final AtomicLong STATEMENTS = new AtomicLong();
    private static volatile boolean isOver;

    private SqlBench() {}

    public static void main(String[] args) throws Exception {
        long seconds = Long.parseLong(args[0]);
        int count = args.length > 1 ? Integer.parseInt(args[1]) : 1;
        long rate = args.length > 2 ? Long.parseLong(args[2]) : 0;
        Thread[] threads = new Thread[count];
        for (int i = 0; i < count; i++) {
            int number = i;
            threads[i] = new Thread(() -> work(number, rate), "bench-" + i);
            threads[i].start();
        }
        Thread.sleep(1_000);
        long cpu = cpuNs();
        long before = STATEMENTS.get();
        long start = System.nanoTime();
        Thread.sleep(seconds * 1_000);
        long statements = STATEMENTS.get() - before;
        long ns = System.nanoTime() - start;
        cpu = cpuNs() - cpu;
        isOver = true;
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("statements " + statements);
        System.out.println("per_second " + Math.round(statements * 1e9 / ns));
        System.out.println("cpu_ns " + cpu / Math.max(statements, 1));
    }

    private static long cpuNs() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }

    /** Each thread has a database of its own, so that none waits for another. */
    private static void work(int number, long rate) {
        try (Connection connection = DriverManager.getConnection("jdbc:h2:mem:bench" + number);
                Statement statement = connection.createStatement()) {
            statement.execute("create table item(id int primary key, name varchar(40))");
            statement.execute("insert into item select x, 'item ' || x from system_range(1, " + ROWS + ")");
            try (PreparedStatement select =
                    connection.prepareStatement("select name from item where id = ?")) {
                long next = System.nanoTime();
                for (int round = 0; !isOver; round++) {
                    round(select, statement, round);
                    STATEMENTS.addAndGet(ROUND);
                    if (rate > 0) {
                        next += ROUND * 1_000_000_000L / rate;
                        long wait = next - System.nanoTime();
                        if (wait > 0) {
                            LockSupport.parkNanos(wait);
                        }
                    }
                }
            }
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void round(PreparedStatement select, Statement statement, int round) throws SQLException {
        for (int i = 0; i < ROUND - 4; i++) {
            select.setInt(1, (round * 31 + i) % ROWS + 1);
            Statements.check(Statements.read(select.executeQuery()), 1);
        }
        int id = ROWS + 1 + round % 100;
        Statements.check(statement.executeUpdate("insert into item values (" + id + ", 'new')"), 1);
        Statements.read(statement.executeQuery("select name from item where id = " + id));
        Statements.check(statement.executeUpdate("delete from item where id = " + id), 1);
        Statements.read(statement.executeQuery("select id from item where id < 3"));
    }
}
