package programs;

/**
 * A loop whose method calls itself briefly, among many threads that do nothing: each look at all stacks takes a while,
 * in which short calls end and begin.
 */
public final class Walks {
    private static final int IDLE = 400;
    private static volatile long sum;

    private Walks() {
    }

    public static void main(String[] args) throws java.io.IOException {
        for (int i = 0; i < IDLE; i++) {
            start(Walks::idle);
        }
        start(() -> Walk.walk(0));
        System.out.println("ready");
        while (System.in.read() >= 0) {
            sum++;
        }
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work, "walker");
        thread.setDaemon(true);
        thread.start();
    }

    private static void idle() {
        try {
            Thread.sleep(Long.MAX_VALUE);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static final class Walk {
        static void walk(int depth) {
            for (long seed = depth;;) {
                for (int i = 0; i < 400_000; i++) {
                    seed = seed * 31 + i;
                }
                sum = seed;
                if (depth > 0) {
                    return;
                }
                for (int i = 0; i < 30; i++) {
                    step(i);
                }
                walk(depth + 1);
            }
        }

        private static void step(int seed) {
            sum += Long.toString(seed).length();
        }
    }
}
