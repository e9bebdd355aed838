package programs;

import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * Two threads that call cheap methods all the time, one in requests, one in a loop that never ends. On its
 * stdin it is told which of them is slow from now on, {@code slow lookup} or {@code slow step}, and how often to
 * call a method, {@code errands 1000}; it answers whatever it is told with how many requests there were. It ends
 * with its stdin.
 */
public final class Turning {
    private static volatile String slow = "";
    private static volatile long requests;
    private static volatile boolean ends;
    private static long sum;

    private Turning() {}

    public static void main(String[] args) throws Exception {
        Thread serving = new Thread(new Serving(), "serving");
        Thread looping = new Thread(new Looping(), "looping");
        serving.start();
        looping.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.startsWith("slow ")) {
                slow = line.substring(5);
            }
            if (line.startsWith("errands ")) {
                errands(Integer.parseInt(line.substring(8)));
            }
            System.out.println(requests);
        }
        ends = true;
        serving.join();
        looping.join();
        System.out.println(requests);
    }

    private static final class Serving implements Runnable {
        @Override
        public void run() {
            while (!ends) {
                sum += request();
                requests = requests + 1;
            }
        }

        /** So long that its own probes are within any budget, on a busy machine and as the JVM starts too. */
        private long request() {
            long found = 0;
            for (int i = 0; i < 20_000; i++) {
                found += lookup(i);
            }
            return found;
        }

        private long lookup(int key) {
            if (key == 1_000 && slow.equals("lookup")) {
                pause(3);
            }
            return mixed(key);
        }
    }

    private static final class Looping implements Runnable {
        @Override
        public void run() {
            for (int i = 0; !ends; i++) {
                sum += step(i);
            }
        }

        private long step(int i) {
            if (slow.equals("step")) {
                pause(5);
            }
            return mixed(i);
        }
    }

    private static void errands(int count) {
        for (int i = 0; i < count; i++) {
            sum += errand(i);
        }
    }

    private static long errand(long number) {
        return mixed(number);
    }

    private static long mixed(long number) {
        for (int i = 0; i < 8; i++) {
            number ^= number << 13;
            number ^= number >> 7;
        }
        return number;
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
