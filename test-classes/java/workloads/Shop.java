package workloads;

import java.util.concurrent.locks.LockSupport;

/** What {@link Service} calls: an order of some twenty lines, each priced, taxed and checked. */
final class Shop {
    private static final int LINES = 20;

    private final int[] prices = new int[512];
    /** How often the warehouse was asked; each takes two milliseconds. */
    long waits;

    Shop(int seed) {
        for (int i = 0; i < prices.length; i++) {
            prices[i] = (i * 7_919 + seed) % 9_973;
        }
    }

    /** 203 calls, or 204 with the warehouse. */
    long order(int number, boolean asksWarehouse) {
        long sum = 0;
        for (int line = 0; line < LINES; line++) {
            sum += line(number, line);
        }
        if (asksWarehouse) {
            warehouse();
        }
        return checksum(sum) + text(number).length();
    }

    private long line(int number, int line) {
        int price = price(number, line);
        long taxed = price + tax(price) + shipping(weight(number, line));
        return discount(taxed, number) + stock(number, line);
    }

    private int price(int number, int line) {
        return search(number * 31 + line);
    }

    private int search(int key) {
        int found = 0;
        for (int i = 0; i < 2_400; i++) {
            found += prices[(key + i * 5) & 511] > key % 9_973 ? 1 : prices[i & 511] & 1;
        }
        return found;
    }

    private int tax(int price) {
        return price * 19 / 100;
    }

    private int weight(int number, int line) {
        return mix(number ^ line) & 1023;
    }

    private int shipping(int weight) {
        return weight > 500 ? 7 : 3;
    }

    private long discount(long amount, int number) {
        return number % 10 == 0 ? amount * 9 / 10 : amount;
    }

    private int stock(int number, int line) {
        return mix(number + line) & 15;
    }

    private int mix(int x) {
        for (int i = 0; i < 1_500; i++) {
            x = x * 31 + prices[x & 511];
        }
        return x;
    }

    private long checksum(long sum) {
        return sum * 0x9E3779B97F4A7C15L >>> 40;
    }

    private String text(int number) {
        return Integer.toString(number);
    }

    private void warehouse() {
        waits++;
        long until = System.nanoTime() + 2_000_000;
        for (long left = 2_000_000; left > 0; left = until - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }
}
