package truth;

import java.util.function.IntBinaryOperator;
import java.util.function.IntUnaryOperator;
import java.util.function.Supplier;

/** Plain calls of every kind of method. */
final class Calls {
    Calls() {
        Count.call("truth.Calls <init> ()V");
    }

    private long sink;

    void round(int i) {
        Count.call("truth.Calls round (I)V");
        sink += fib(i % 10);
        sink += wide(i, 2.5, 3L, new long[] {i}, "x");
        sink += table(i % 7) + lookup(i % 4 * 1000);
        guarded(i);
        guardedStatic(i);
        sink += isEven(i % 9) ? 1 : 0;
        lambdas(i);
        inner(i);
        sink += new Impl().work(i);
        sink += Interface.statically(i);
        Box<Integer> box = new IntBox();
        sink += box.get();
        earlyReturns(i % 5);
        sink += loop(i % 50);
        empty();
    }

    static int fib(int n) {
        Count.call("truth.Calls fib (I)I");
        return n < 2 ? n : fib(n - 1) + fib(n - 2);
    }

    private static double wide(int a, double b, long c, long[] d, String e) {
        Count.call("truth.Calls wide (IDJ[JLjava/lang/String;)D");
        return a + b * c + d[0] + e.length();
    }

    private static int table(int n) {
        Count.call("truth.Calls table (I)I");
        switch (n) {
            case 0:
                return 10;
            case 1:
            case 2:
                return 20;
            case 3:
                n += 5;
                break;
            case 4:
                return 40;
            default:
                n -= 5;
        }
        return n;
    }

    private static int lookup(int n) {
        Count.call("truth.Calls lookup (I)I");
        switch (n) {
            case -1000:
                return 1;
            case 0:
                return 2;
            case 1000:
                return 3;
            case 1_000_000:
                return 4;
            default:
                return 5;
        }
    }

    private synchronized void guarded(int i) {
        Count.call("truth.Calls guarded (I)V");
        if (i % 3 == 0) {
            guarded(i + 1);
        }
    }

    private static synchronized void guardedStatic(int i) {
        Count.call("truth.Calls guardedStatic (I)V");
        synchronized (Calls.class) {
            if (i % 4 == 0) {
                return;
            }
            empty();
        }
    }

    /** Two methods that call each other. */
    private static boolean isEven(int n) {
        Count.call("truth.Calls isEven (I)Z");
        return n == 0 || isOdd(n - 1);
    }

    private static boolean isOdd(int n) {
        Count.call("truth.Calls isOdd (I)Z");
        return n != 0 && isEven(n - 1);
    }

    private void lambdas(int i) {
        Count.call("truth.Calls lambdas (I)V");
        IntUnaryOperator plain = n -> {
            Count.call("truth.Calls lambda$lambdas$0 (I)I");
            return n + 1;
        };
        IntBinaryOperator capturing = (a, b) -> {
            Count.call("truth.Calls lambda$lambdas$1 (III)I");
            return a + b + i;
        };
        Supplier<Box<Integer>> reference = IntBox::new;
        sink += plain.applyAsInt(i) + capturing.applyAsInt(1, 2) + reference.get().get();
    }

    private void inner(int i) {
        Count.call("truth.Calls inner (I)V");
        class Local {
            private final int n;

            Local(int n) {
                Count.call("truth.Calls$1Local <init> (Ltruth/Calls;I)V");
                this.n = n;
            }

            int twice() {
                Count.call("truth.Calls$1Local twice ()I");
                return 2 * n;
            }
        }
        Runnable anonymous = new Runnable() {
            {
                Count.call("truth.Calls$1 <init> (Ltruth/Calls;I)V");
            }

            @Override
            public void run() {
                Count.call("truth.Calls$1 run ()V");
                sink += i;
            }
        };
        anonymous.run();
        sink += new Local(i).twice() + new Inner().value();
    }

    private final class Inner {
        Inner() {
            Count.call("truth.Calls$Inner <init> (Ltruth/Calls;)V");
        }

        long value() {
            Count.call("truth.Calls$Inner value ()J");
            return sink;
        }
    }

    private interface Interface {
        default int work(int i) {
            Count.call("truth.Calls$Interface work (I)I");
            return helper(i) + own(i);
        }

        private int helper(int i) {
            Count.call("truth.Calls$Interface helper (I)I");
            return i / 2;
        }

        static int statically(int i) {
            Count.call("truth.Calls$Interface statically (I)I");
            return i * 2;
        }

        int own(int i);
    }

    private static final class Impl implements Interface {
        Impl() {
            Count.call("truth.Calls$Impl <init> ()V");
        }

        @Override
        public int own(int i) {
            Count.call("truth.Calls$Impl own (I)I");
            return i;
        }
    }

    private abstract static class Box<T> {
        Box() {
            Count.call("truth.Calls$Box <init> ()V");
        }

        abstract T get();
    }

    /** Its {@code get} has a bridge, which is a method of its own in the class file. */
    private static final class IntBox extends Box<Integer> {
        IntBox() {
            Count.call("truth.Calls$IntBox <init> ()V");
        }

        @Override
        Integer get() {
            Count.call("truth.Calls$IntBox get ()Ljava/lang/Integer;");
            // Everybody calls through Box, so every call goes over the bridge.
            Count.call("truth.Calls$IntBox get ()Ljava/lang/Object;");
            return 7;
        }
    }

    private static void earlyReturns(int i) {
        Count.call("truth.Calls earlyReturns (I)V");
        if (i == 0) {
            return;
        }
        for (int n = 0; n < i; n++) {
            if (n == 2) {
                return;
            }
        }
        try {
            if (i == 1) {
                return;
            }
        } finally {
            empty();
        }
    }

    /** Begins with its loop's condition: the branch target is the first instruction. */
    private static int loop(int n) {
        Count.call("truth.Calls loop (I)I");
        int sum = 0;
        while (n-- > 0) {
            sum += n;
        }
        return sum;
    }

    private static void empty() {
        Count.call("truth.Calls empty ()V");
    }
}
