package programs;

import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * Does what it is told on its stdin, a line each: {@code calls N} makes calls, with exceptions through
 * several methods and out of constructors, and says how often each method was called by that, and how
 * often an exception left it. It ends with its stdin.
 */
public final class Muted {
    private static int catcher;
    private static int passer;
    private static int thrower;
    private static int thrown;
    private static int builder;
    private static int base;
    private static int baseFailed;
    private static int recursive;

    private Muted() {}

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            System.out.println(words[0].equals("calls") ? calls(Integer.parseInt(words[1])) : "ready");
        }
    }

    private static String calls(int rounds) {
        catcher = passer = thrower = thrown = builder = base = baseFailed = recursive = 0;
        Work work = new Work();
        for (int i = 0; i < rounds; i++) {
            work.catcher(i);
            work.builder(i);
            work.recursive(i % 4);
        }
        return "catcher " + catcher + " 0 passer " + passer + " " + thrown + " thrower " + thrower + " "
                + thrown + " builder " + builder + " 0 Base " + base + " " + baseFailed + " Derived "
                + base + " " + baseFailed + " recursive " + recursive + " 0";
    }

    private static final class Work {
        private void catcher(int i) {
            catcher++;
            try {
                passer(i);
            } catch (IllegalStateException e) {
                // It is counted where it is thrown.
            }
        }

        private void passer(int i) {
            passer++;
            thrower(i);
        }

        private void thrower(int i) {
            thrower++;
            if (i % 3 == 0) {
                thrown++;
                throw FAILURE;
            }
        }

        private void builder(int i) {
            builder++;
            try {
                new Derived(i);
            } catch (IllegalStateException e) {
                // Out of its super call, which no probe of Derived can see.
            }
        }

        private void recursive(int depth) {
            recursive++;
            if (depth > 0) {
                recursive(depth - 1);
            }
        }
    }

    private static class Base {
        Base(int i) {
            base++;
            if (i % 5 == 0) {
                baseFailed++;
                throw FAILURE;
            }
        }
    }

    private static final class Derived extends Base {
        private final int i;

        Derived(int i) {
            super(i);
            this.i = i;
        }

        @Override
        public String toString() {
            return "" + i;
        }
    }

    private static final IllegalStateException FAILURE = new IllegalStateException();
}
