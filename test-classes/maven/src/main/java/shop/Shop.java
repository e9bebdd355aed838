package shop;

import io.github.tprofiler.Tprofiler;

/**
 * Does what its arguments say, in their order, and prints what the agent answers.
 *
 * <p>{@code start}, {@code start=OPTIONS} and {@code stop} call the agent, {@code premain=OPTIONS} does what the JVM
 * does for a second {@code -javaagent}, {@code pay=COUNT} makes so many calls, and {@code wait} waits for a line on
 * stdin. A word with {@code thread:} in front of it runs in a thread of a class of its own.
 */
public final class Shop {
    private Shop() {}

    public static void main(String[] args) throws Exception {
        for (String word : args) {
            if (word.startsWith("thread:")) {
                String rest = word.substring("thread:".length());
                Thread thread = new Worker(rest);
                thread.start();
                thread.join();
            } else {
                System.out.println(word.replaceAll("=.*", "") + ": " + run(word));
            }
        }
    }

    static String run(String word) throws Exception {
        int end = word.indexOf('=');
        String value = word.substring(end + 1);
        switch (end < 0 ? word : word.substring(0, end)) {
            case "start":
                return "" + (end < 0 ? Tprofiler.start() : Tprofiler.start(value));
            case "stop":
                return "" + Tprofiler.stop();
            case "premain":
                Tprofiler.premain(value);
                return "done";
            case "pay":
                return "" + Orders.payAll(Integer.parseInt(value));
            case "wait":
                return "" + System.in.read();
            default:
                throw new IllegalArgumentException(word);
        }
    }

    /** The agent needs a thread of a plain class, and this is none. */
    private static final class Worker extends Thread {
        private final String word;

        Worker(String word) {
            this.word = word;
        }

        @Override
        public void run() {
            try {
                System.out.println(word.replaceAll("=.*", "") + " in a thread: " + Shop.run(word));
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }
    }
}
