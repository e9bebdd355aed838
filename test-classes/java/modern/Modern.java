import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;

/** What Java 21 has and Java 11 has not. */
public final class Modern {
    sealed interface Item permits Book, Box, Nothing {}

    record Book(String title, int price) implements Item {
        Book {
            if (price < 0) {
                throw new IllegalArgumentException(title);
            }
        }
    }

    record Box(Item first, Item second) implements Item {}

    enum Nothing implements Item {
        NOTHING
    }

    private int secret = 7;

    /** A nest mate, which reads a private field. */
    private final class Inner {
        private int peek() {
            return secret;
        }
    }

    static int price(Item item) {
        return switch (item) {
            case Book(String title, int price) when title.isEmpty() -> price / 2;
            case Book book -> book.price();
            case Box(Book(var title, var price), Nothing n) -> price + title.length();
            case Box(Item first, Item second) -> price(first) + price(second);
            case Nothing n -> 0;
        };
    }

    static String kind(Object o) {
        if (o instanceof String s && s.length() > 3) {
            return s.toUpperCase();
        }
        if (!(o instanceof Integer i)) {
            return "other";
        }
        return switch (i) {
            case 1, 2, 3 -> "few";
            default -> {
                try {
                    yield "many " + 100 / (i - 4);
                } catch (ArithmeticException e) {
                    yield "none";
                }
            }
        };
    }

    static int text() {
        return """
            select *
              from orders
            """.lines().mapToInt(String::length).sum();
    }

    interface Greeter<T extends CharSequence> extends Function<T, String> {
        @Override
        default String apply(T t) {
            return greet(t);
        }

        private String greet(T t) {
            return "hello " + t;
        }
    }

    public static int run() {
        int sum = new Modern().new Inner().peek();
        List<Item> items = new ArrayList<>(List.of(new Book("a", 3), new Book("", 8), Nothing.NOTHING));
        items.add(new Box(items.get(0), Nothing.NOTHING));
        items.add(new Box(items.get(3), items.get(1)));
        for (Item item : items) {
            sum += price(item) + item.toString().length();
            sum += item.equals(items.get(0)) ? 1 : 0;
        }
        try {
            new Book("bad", -1);
        } catch (IllegalArgumentException e) {
            sum += e.getMessage().length();
        }
        for (Object o : new Object[] {"text", "x", 1, 4, 5, 2.0}) {
            sum += kind(o).length();
        }
        Greeter<String> greeter = new Greeter<>() {};
        var local = new Object() {
            int times = greeter.apply("you").length();
        };
        return sum + local.times + text();
    }
}
