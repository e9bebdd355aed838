package programs;

import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * A method that is called often, and turns slow: reads {@code fast} or {@code slow} from its stdin, a line each, and
 * answers each with a line. With {@code first}, another method is called more often. It ends with its stdin.
 */
public final class Slowing {
    private static volatile String mode = "idle";
    private static volatile int sum;

    private Slowing() {}

    private static int step(int i, boolean slow) throws InterruptedException {
        if (slow) {
            Thread.sleep(20);
        }
        return Integer.bitCount(i);
    }

    private static int first(int i) {
        return Integer.reverse(i);
    }

    private static void work() {
        try {
            while (true) {
                boolean slow = mode.equals("slow");
                if (mode.equals("first")) {
                    for (int i = 0; i < 20_000; i++) {
                        sum += first(i);
                    }
                }
                int steps = mode.equals("fast") ? 1_000 : slow ? 1 : 0;
                for (int i = 0; i < steps; i++) {
                    sum += step(i, slow);
                }
                if (!slow) {
                    Thread.sleep(10);
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    public static void main(String[] args) throws Exception {
        Thread worker = new Thread(Slowing::work, "worker");
        worker.setDaemon(true);
        worker.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            mode = line;
            System.out.println("ok");
        }
    }
}
