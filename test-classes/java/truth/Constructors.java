package truth;

/** Exceptions out of constructors: their bodies, their arguments, and the super(...) call itself. */
final class Constructors {
    private Constructors() {}

    static final class Failure extends RuntimeException {
        Failure() {
            super("constructor", null, false, false);
            Count.call("truth.Constructors$Failure <init> ()V");
        }
    }

    /** Its constructor throws if it is told to. */
    static class Base {
        Base(int i) {
            Count.call("truth.Constructors$Base <init> (I)V");
            if (i < 0) {
                Count.thrown("truth.Constructors$Base <init> (I)V");
                throw new Failure();
            }
        }
    }

    /** The exception comes out of the super(...) call. */
    static class Derived extends Base {
        Derived(int i) {
            super(entered("truth.Constructors$Derived <init> (I)V", i, i < 0));
        }
    }

    /** And passes through a second such call. */
    static final class MoreDerived extends Derived {
        MoreDerived(int i) {
            super(entered("truth.Constructors$MoreDerived <init> (I)V", i, i < 0));
        }

        /** By way of this(...). */
        MoreDerived(String i) {
            this(entered("truth.Constructors$MoreDerived <init> (Ljava/lang/String;)V", Integer.parseInt(i), i.startsWith("-")));
        }
    }

    /** The exception comes from the arguments of the super(...) call, with branches among them. */
    static final class Arguments extends Base {
        Arguments(int i) {
            super(entered("truth.Constructors$Arguments <init> (I)V", i, i % 2 == 0) > 5 ? check(i) : check(i) + 1);
        }
    }

    /** The exception comes from the body. */
    static final class Body extends Base {
        private final int n;

        Body(int i) {
            super(1);
            Count.call("truth.Constructors$Body <init> (I)V");
            n = i;
            try {
                check(i);
            } catch (Failure e) {
                // Caught in the constructor: no exit.
                afterwards();
            }
            if (i % 3 == 0) {
                Count.thrown("truth.Constructors$Body <init> (I)V");
                check(2);
            }
        }

        int get() {
            Count.call("truth.Constructors$Body get ()I");
            return n;
        }
    }

    /** Counts a constructor from within its arguments, which come before everything else. */
    private static int entered(String constructor, int i, boolean throwsLater) {
        Count.call("truth.Constructors entered (Ljava/lang/String;IZ)I");
        Count.call(constructor);
        if (throwsLater) {
            Count.thrown(constructor);
        }
        return i;
    }

    private static int check(int i) {
        Count.call("truth.Constructors check (I)I");
        if (i % 2 == 0) {
            Count.thrown("truth.Constructors check (I)I");
            throw new Failure();
        }
        return Math.abs(i);
    }

    private static void afterwards() {
        Count.call("truth.Constructors afterwards ()V");
    }

    /**
     * Catches very many exceptions out of super(...) in one call, and then makes calls whose place
     * and time must still be right.
     */
    static void run(int count) throws InterruptedException {
        Count.call("truth.Constructors run (I)V");
        int caught = 0;
        for (int i = 0; i < count; i++) {
            int n = i % 4 == 0 ? i : -i;
            try {
                if (i % 2 == 0) {
                    new Derived(n);
                } else {
                    new MoreDerived(n);
                }
            } catch (Failure e) {
                caught++;
            }
        }
        for (int i = 0; i < 1000; i++) {
            try {
                new MoreDerived(i % 2 == 0 ? "1" : "-1");
            } catch (Failure e) {
                caught++;
            }
            try {
                new Arguments(i);
            } catch (Failure e) {
                caught++;
            }
            try {
                caught += new Body(i).get() & 1;
            } catch (Failure e) {
                caught++;
            }
        }
        uncaughtHere();
        sleepsLater(caught);
    }

    /** The exception passes a method that has no handler for it. */
    private static void uncaughtHere() {
        Count.call("truth.Constructors uncaughtHere ()V");
        for (int i = 0; i < 100; i++) {
            try {
                passesOn();
            } catch (Failure e) {
                afterwards();
            }
        }
    }

    private static void passesOn() {
        Count.call("truth.Constructors passesOn ()V");
        Count.thrown("truth.Constructors passesOn ()V");
        new MoreDerived(-1);
    }

    /** Its record shows whether the frames above run() are right. */
    private static void sleepsLater(int caught) throws InterruptedException {
        Count.call("truth.Constructors sleepsLater (I)V");
        Thread.sleep(20);
    }
}
