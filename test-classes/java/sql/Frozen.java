package sql;

import java.io.FileInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.DriverPropertyInfo;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.logging.Logger;

/**
 * A small shop, whose log has a row of every table: what scripts/freeze.sh records. Usage: {@code Frozen SECONDS}. Two
 * threads serve orders; another one is in {@code audit} until the JVM ends. These methods run all the time, so an agent
 * that attaches leaves them alone.
 */
public final class Frozen {
    private Frozen() {}

    private static void audit() {
        Shop.rest(3_600_000);
    }

    /** Others wait for the locks, so long that the agent has time to ask who has them. */
    private static void takeStock() {
        while (true) {
            Shop.count();
            Shop.rest(150);
        }
    }

    /** An idle worker, which parks for a queue. */
    private static void idle() {
        LinkedBlockingQueue<String> orders = new LinkedBlockingQueue<>();
        try {
            while (orders.poll(200, TimeUnit.MILLISECONDS) == null) {
                Shop.kept = null;
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void startDaemon(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    /** Prices in a virtual thread, where the JVM has them. */
    private static void startVirtual() throws ReflectiveOperationException {
        if (Runtime.version().feature() >= 21) {
            Runnable prices = () -> {
                while (true) {
                    Shop.price();
                    Shop.rest(100);
                }
            };
            Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, prices);
        }
    }

    private static void serve(long until) {
        try (Connection connection = DriverManager.getConnection("jdbc:frozen://host/shop")) {
            for (int number = 1; System.nanoTime() < until; number++) {
                Shop.order(number, connection);
            }
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    public static void main(String[] args) throws Exception {
        long until = System.nanoTime() + Long.parseLong(args[0]) * 1_000_000_000L;
        DriverManager.registerDriver(new FrozenDriver());
        startDaemon("audit", Frozen::audit);
        startDaemon("stock", Frozen::takeStock);
        startDaemon("idle", Frozen::idle);
        startVirtual();
        Thread[] workers = new Thread[2];
        for (int i = 0; i < workers.length; i++) {
            workers[i] = new Thread(() -> serve(until), "worker-" + (i + 1));
            workers[i].start();
        }
        for (Thread worker : workers) {
            worker.join();
        }
    }

    /** What an agent that attaches instruments. */
    private static final class Shop {
        private static final Object STOCK = new Object();
        private static final ReentrantLock LEDGER = new ReentrantLock();
        static volatile Object kept;
        private static volatile long sum;

        private Shop() {}

        private static void order(int number, Connection connection) {
            price();
            reserve();
            book();
            try {
                pay(number, connection);
            } catch (SQLException e) {
                sum++;
            }
            receipt();
        }

        private static void price() {
            long until = System.nanoTime() + 4_000_000;
            while (System.nanoTime() < until) {
                sum = sum * 31 + discount(3);
            }
        }

        private static int discount(int depth) {
            return depth == 0 ? 1 : discount(depth - 1) + 1;
        }

        private static void reserve() {
            synchronized (STOCK) {
                rest(5);
            }
        }

        private static void count() {
            synchronized (STOCK) {
                rest(60);
            }
            LEDGER.lock();
            try {
                rest(60);
            } finally {
                LEDGER.unlock();
            }
        }

        private static void book() {
            LEDGER.lock();
            try {
                rest(4);
            } finally {
                LEDGER.unlock();
            }
        }

        private static void pay(int number, Connection connection) throws SQLException {
            try (Statement statement = connection.createStatement()) {
                statement.execute("insert into payment values (" + number + ", 'paid')");
                if (number % 4 == 0) {
                    check(statement);
                }
            }
        }

        private static void check(Statement statement) throws SQLException {
            statement.execute("select amount from missing where id = 7");
        }

        private static void receipt() {
            for (int i = 0; i < 20; i++) {
                kept = new byte[8_192];
            }
            inTheKernel();
        }

        private static void inTheKernel() {
            long until = System.nanoTime() + 3_000_000;
            byte[] bytes = new byte[8_192];
            try (FileInputStream zeros = new FileInputStream("/dev/zero")) {
                while (System.nanoTime() < until) {
                    sum += zeros.read(bytes);
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        private static void rest(long ms) {
            try {
                Thread.sleep(ms);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    /** A driver without a database. Needs no library, unlike the ones of the other programs. */
    private static final class FrozenDriver implements Driver {
        @Override
        public Connection connect(String url, Properties info) {
            return acceptsURL(url) ? new FrozenConnection() : null;
        }

        @Override
        public boolean acceptsURL(String url) {
            return url.startsWith("jdbc:frozen:");
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
    }

    private static final class FrozenConnection extends WrappedConnection {
        FrozenConnection() {
            super(null);
        }

        @Override
        public Statement createStatement() {
            return new FrozenStatement(this);
        }

        @Override
        public void close() {}
    }

    private static final class FrozenStatement extends WrappedStatement {
        FrozenStatement(WrappedConnection connection) {
            super(connection, null);
        }

        @Override
        public boolean execute(String text) throws SQLException {
            Shop.rest(12);
            if (text.contains("missing")) {
                throw new SQLException("there is no table missing");
            }
            return false;
        }

        @Override
        public void close() {}
    }
}
