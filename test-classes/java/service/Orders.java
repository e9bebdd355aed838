package service;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;

/** A small database in memory: orders by number, with an index by customer. It counts its calls. */
final class Orders {
    /** Orders that are kept; older ones go. */
    private static final int MOST = 20_000;

    private final Map<Long, Order> byNumber = new ConcurrentHashMap<>();
    private final Map<String, List<Order>> byCustomer = new ConcurrentHashMap<>();
    private final AtomicLong last = new AtomicLong();
    final LongAdder inserts = new LongAdder();
    final LongAdder finds = new LongAdder();
    final LongAdder sums = new LongAdder();
    final LongAdder missing = new LongAdder();

    long insert(String customer, long cents) {
        inserts.increment();
        Order order = new Order(last.incrementAndGet(), customer, cents);
        byNumber.put(order.number, order);
        byCustomer.compute(customer, (name, list) -> with(list, order));
        Order old = byNumber.remove(order.number - MOST);
        if (old != null) {
            byCustomer.computeIfPresent(old.customer, (name, list) -> without(list, old));
        }
        return order.number;
    }

    private static List<Order> with(List<Order> list, Order order) {
        List<Order> all = list == null ? new ArrayList<>() : new ArrayList<>(list);
        all.add(order);
        return all;
    }

    private static List<Order> without(List<Order> list, Order order) {
        List<Order> rest = new ArrayList<>(list);
        rest.remove(order);
        return rest.isEmpty() ? null : rest;
    }

    /** One order. */
    Order find(long number) {
        finds.increment();
        Order order = byNumber.get(number);
        if (order == null) {
            missing.increment();
            throw new IllegalArgumentException("no order " + number);
        }
        return order;
    }

    /** What a customer has ordered by price, with the sum. */
    String sum(String customer) {
        sums.increment();
        Map<Long, Long> byPrice = new TreeMap<>();
        long sum = 0;
        for (Order order : byCustomer.getOrDefault(customer, List.of())) {
            byPrice.merge(order.cents / 100, 1L, Long::sum);
            sum += order.cents;
        }
        return customer + " " + sum + " " + byPrice.size();
    }

    /** An order. */
    static final class Order {
        final long number;
        final String customer;
        final long cents;

        Order(long number, String customer, long cents) {
            this.number = number;
            this.customer = customer;
            this.cents = cents;
        }

        String text() {
            return number + " " + customer + " " + cents;
        }
    }
}
