package truth;

import java.util.ArrayList;
import java.util.List;

/** Code that the rewriter has to move with care. */
final class Shapes {
    private Shapes() {}

    static void run(int rounds) {
        Count.call("truth.Shapes run (I)V");
        for (int i = 0; i < rounds; i++) {
            strings("b" + i % 3);
            large(i % 4);
            generic(new ArrayList<>(List.of(i, "x")));
            nestedLoops(i % 4);
            returnsWithMonitor(i);
            varargs(i, 1, 2, 3);
        }
        // Other agents make frames larger.
        recurse(3_000);
        overflow();
    }

    /** A switch on strings is two switches. */
    private static int strings(String s) {
        Count.call("truth.Shapes strings (Ljava/lang/String;)I");
        switch (s) {
            case "b0":
                return 0;
            case "b1":
                return 1;
            default:
                return -1;
        }
    }

    /** Many locals and wide instructions. */
    private static double large(int n) {
        Count.call("truth.Shapes large (I)D");
        double a0 = n, a1 = a0 + 1, a2 = a1 + 1, a3 = a2 + 1, a4 = a3 + 1, a5 = a4 + 1, a6 = a5 + 1, a7 = a6 + 1;
        long b0 = n, b1 = b0 + 1, b2 = b1 + 1, b3 = b2 + 1, b4 = b3 + 1, b5 = b4 + 1, b6 = b5 + 1, b7 = b6 + 1;
        int c = 100_000;
        for (int i = 0; i < n; i++) {
            c += 1000;
            if (c % 7 == 3) {
                return a7;
            }
        }
        return a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + b0 + b1 + b2 + b3 + b4 + b5 + b6 + b7 + c;
    }

    private static <T extends Comparable<? super T>> T first(List<? extends T> list) {
        Count.call("truth.Shapes first (Ljava/util/List;)Ljava/lang/Comparable;");
        return list.get(0);
    }

    private static void generic(List<Object> list) {
        Count.call("truth.Shapes generic (Ljava/util/List;)V");
        List<Integer> numbers = new ArrayList<>();
        for (Object o : list) {
            if (o instanceof Integer) {
                numbers.add((Integer) o);
            }
        }
        first(numbers);
    }

    private static int nestedLoops(int n) {
        Count.call("truth.Shapes nestedLoops (I)I");
        int found = 0;
        outer:
        for (int i = 0; i < n; i++) {
            for (int j = 0; ; j++) {
                if (j > i) {
                    continue outer;
                }
                if (i * j == 4) {
                    break outer;
                }
                found += j;
            }
        }
        return found;
    }

    private static int returnsWithMonitor(int i) {
        Count.call("truth.Shapes returnsWithMonitor (I)I");
        synchronized (Shapes.class) {
            if (i % 2 == 0) {
                return 1;
            }
            synchronized (Count.class) {
                return i % 3 == 0 ? 2 : 3;
            }
        }
    }

    private static int varargs(int first, int... rest) {
        Count.call("truth.Shapes varargs (I[I)I");
        int sum = first;
        for (int n : rest) {
            sum += n;
        }
        return sum;
    }

    private static int recurse(int depth) {
        Count.call("truth.Shapes recurse (I)I");
        return depth == 0 ? 0 : 1 + recurse(depth - 1);
    }

    /** An exception that passes through thousands of frames. */
    private static void overflow() {
        Count.call("truth.Shapes overflow ()V");
        try {
            deep(3_000);
        } catch (Exceptions.Failure e) {
            recurse(10);
        }
    }

    private static void deep(int depth) {
        Count.call("truth.Shapes deep (I)V");
        Count.thrown("truth.Shapes deep (I)V");
        if (depth == 0) {
            throw new Exceptions.Failure("deep");
        }
        deep(depth - 1);
    }
}
