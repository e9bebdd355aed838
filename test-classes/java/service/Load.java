package service;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.HttpURLConnection;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;

/**
 * Requests to {@link Main} from some threads. {@code SECONDS} on its stdin is answered, after so many seconds
 * of load, when every request has been answered: with their number, the rate, and the median and 99th
 * percentile of their times in microseconds.
 *
 * <p>Usage: {@code Load PORT THREADS}
 */
public final class Load {
    private static long seed;

    private Load() {}

    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[0]);
        int threads = Integer.parseInt(args[1]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            long end = System.nanoTime() + (long) (Double.parseDouble(line) * 1e9);
            List<Client> clients = new ArrayList<>();
            long began = System.nanoTime();
            for (int i = 0; i < threads; i++) {
                clients.add(new Client(port, end, seed++));
                clients.get(i).start();
            }
            int all = 0;
            for (Client client : clients) {
                client.join();
                all += client.count;
            }
            double seconds = (System.nanoTime() - began) / 1e9;
            long[] times = new long[all];
            int filled = 0;
            for (Client client : clients) {
                System.arraycopy(client.times, 0, times, filled, client.count);
                filled += client.count;
            }
            Arrays.sort(times);
            System.out.println("requests " + all + " rate " + Math.round(all / seconds) + " p50 "
                    + times[all / 2] / 1000 + " p99 " + times[(int) (all * 0.99)] / 1000);
        }
    }

    private static final class Client extends Thread {
        private final int port;
        private final long end;
        private final SplittableRandom random;
        private long[] times = new long[1024];
        private int count;

        Client(int port, long end, long seed) {
            this.port = port;
            this.end = end;
            this.random = new SplittableRandom(seed);
        }

        @Override
        public void run() {
            // One at least.
            do {
                long before = System.nanoTime();
                try {
                    request(page());
                } catch (IOException e) {
                    throw new AssertionError(e);
                }
                if (count == times.length) {
                    times = Arrays.copyOf(times, 2 * count);
                }
                times[count++] = System.nanoTime() - before;
            } while (System.nanoTime() < end);
        }

        private String page() {
            int kind = random.nextInt(10);
            if (kind < 5) {
                return "order/customer" + random.nextInt(500) + "/" + random.nextInt(100_000);
            }
            return kind < 8 ? "find/" + random.nextInt(30_000) : "sum/customer" + random.nextInt(500);
        }

        private void request(String page) throws IOException {
            HttpURLConnection connection = (HttpURLConnection)
                    URI.create("http://127.0.0.1:" + port + "/" + page).toURL().openConnection();
            int status = connection.getResponseCode();
            if (status != 200 && status != 404) {
                throw new IOException(page + ": " + status);
            }
            try (InputStream in = status == 200 ? connection.getInputStream() : connection.getErrorStream()) {
                in.transferTo(java.io.OutputStream.nullOutputStream());
            }
        }
    }
}
