package programs;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A service with three troubles: {@code Trouble SECONDS}. Reservations fight for one lock, an export allocates, and
 * quotes of unknown symbols throw. Prints {@code reservations N}, {@code exported BYTES} (of rows' texts) and
 * {@code unknown N}.
 */
public final class Trouble {
    private static final AtomicLong RESERVATIONS = new AtomicLong();
    private static final AtomicLong EXPORTED = new AtomicLong();
    private static final AtomicLong UNKNOWN = new AtomicLong();

    private Trouble() {}

    /** What reservations fight for. */
    static final class Stock {
        private int left = 1_000_000;

        synchronized int reserve(int count) {
            // It asks the warehouse while it has the lock.
            pause(4);
            left -= count;
            return left;
        }
    }

    static final class NoSuchSymbol extends RuntimeException {
        private static final long serialVersionUID = 1;

        NoSuchSymbol(String symbol) {
            super("no such symbol: " + symbol);
        }
    }

    /** Keeps every row's text until it is done. */
    static final class Export {
        private static final int ROWS = 200;
        private static final int LENGTH = 4_000;

        int run() {
            List<char[]> rows = new ArrayList<>();
            for (int i = 0; i < ROWS; i++) rows.add(row(i));
            EXPORTED.addAndGet((long) ROWS * 2 * LENGTH);
            return rows.size();
        }

        private char[] row(int number) {
            char[] text = new char[LENGTH];
            text[number] = 'x';
            return text;
        }
    }

    static final class Quotes {
        int quote(String symbol) {
            return price(symbol) + 1;
        }

        private int price(String symbol) {
            if (symbol.startsWith("?")) {
                UNKNOWN.incrementAndGet();
                throw new NoSuchSymbol(symbol);
            }
            return symbol.length();
        }
    }

    private static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    static void handle(int request, Stock stock, Export export, Quotes quotes) {
        switch (request % 4) {
            case 0:
            case 1:
                stock.reserve(1);
                RESERVATIONS.incrementAndGet();
                break;
            case 2:
                export.run();
                break;
            default:
                try {
                    quotes.quote(request % 8 == 3 ? "?" + request : "ACME");
                } catch (NoSuchSymbol e) {
                    // The answer is 404.
                }
        }
        pause(1);
    }

    public static void main(String[] args) throws Exception {
        long end = System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9);
        Stock stock = new Stock();
        ExecutorService pool = Executors.newFixedThreadPool(4);
        for (int worker = 0; worker < 4; worker++) {
            int first = worker;
            pool.submit(() -> {
                Export export = new Export();
                Quotes quotes = new Quotes();
                for (int request = first; System.nanoTime() < end; request++) {
                    handle(request, stock, export, quotes);
                }
            });
        }
        pool.shutdown();
        pool.awaitTermination(1, TimeUnit.MINUTES);
        System.out.println("reservations " + RESERVATIONS);
        System.out.println("exported " + EXPORTED);
        System.out.println("unknown " + UNKNOWN);
    }
}
