package truth;

import java.util.ArrayList;
import java.util.List;

/** Synchronized blocks of every form, often enough to be compiled. */
final class Monitors {
    private final Object lock = new Object();
    private final List<Integer> seen = new ArrayList<>();
    private long sum;

    private Monitors() {
        Count.call("truth.Monitors <init> ()V");
    }

    static void run(int rounds) {
        Count.call("truth.Monitors run (I)V");
        Monitors monitors = new Monitors();
        for (int i = 0; i < rounds * 20; i++) {
            monitors.block(i);
            try {
                monitors.throwing(i);
            } catch (IllegalStateException e) {
                monitors.sum++;
            }
            monitors.catching(i);
            monitors.nested(i);
        }
    }

    private int block(int n) {
        Count.call("truth.Monitors block (I)I");
        synchronized (lock) {
            sum += n;
            if (seen.size() > 10) {
                seen.clear();
                return 0;
            }
            seen.add(n);
        }
        return 1;
    }

    private void throwing(int n) {
        Count.call("truth.Monitors throwing (I)V");
        synchronized (lock) {
            if (n % 3 == 0) {
                Count.thrown("truth.Monitors throwing (I)V");
                throw new IllegalStateException();
            }
            sum += seen.size();
        }
    }

    private int catching(int n) {
        Count.call("truth.Monitors catching (I)I");
        synchronized (lock) {
            for (int i = 0; i < 3; i++) {
                try {
                    throwing(n + i);
                } catch (IllegalStateException e) {
                    sum++;
                } finally {
                    sum += seen.size();
                }
            }
        }
        try {
            throwing(n);
            return 1;
        } catch (IllegalStateException e) {
            return 0;
        }
    }

    private void nested(int n) {
        Count.call("truth.Monitors nested (I)V");
        try {
            synchronized (lock) {
                synchronized (seen) {
                    throwing(n);
                }
                seen.add(n);
            }
        } catch (IllegalStateException e) {
            synchronized (seen) {
                seen.clear();
            }
        }
    }
}
