package shop;

/** Counts its calls. */
final class Orders {
    private static int paid;

    private Orders() {}

    /** Pays so many orders, and returns how many were paid so far. */
    static int payAll(int count) {
        for (int i = 0; i < count; i++) {
            pay(i);
        }
        return paid;
    }

    private static void pay(int order) {
        paid += 1;
        if (paid < 0) {
            throw new IllegalStateException("order " + order);
        }
    }
}
