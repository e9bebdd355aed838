package programs;

import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * Does what it is told on its stdin, a line each, and answers each with a line: {@code calls N} makes
 * calls and says how often each method was called by that, {@code load} loads a class and calls it.
 * It ends with its stdin.
 */
public final class Phases {
    private static int outer;
    private static int middle;
    private static int thrown;
    private static int leaf;

    private Phases() {}

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "calls":
                    System.out.println(calls(Integer.parseInt(words[1])));
                    break;
                case "load":
                    System.out.println("late " + Late.called());
                    break;
                default:
                    System.out.println("ready");
            }
        }
    }

    private static String calls(int rounds) {
        outer = 0;
        middle = 0;
        thrown = 0;
        leaf = 0;
        Work work = new Work();
        for (int i = 0; i < rounds; i++) {
            work.outer(i);
        }
        return "outer " + outer + " middle " + middle + " thrown " + thrown + " leaf " + leaf;
    }

    private static final class Work {
        private void outer(int i) {
            outer++;
            for (int n = 0; n < 3; n++) {
                try {
                    middle(i + n);
                } catch (IllegalStateException e) {
                    // It is counted where it is thrown.
                }
            }
        }

        private void middle(int i) {
            middle++;
            leaf(i);
            if (i % 5 == 0) {
                thrown++;
                throw new IllegalStateException();
            }
        }

        private void leaf(int i) {
            leaf += 1 + i - i;
        }
    }

    /** Loaded when it is called first. */
    private static final class Late {
        private static int calls;

        private static int called() {
            return ++calls;
        }
    }
}
