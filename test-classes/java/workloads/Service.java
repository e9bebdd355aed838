package workloads;

import java.util.Arrays;

/**
 * Two threads that serve orders of some 200 calls, one in a hundred of which waits for two
 * milliseconds: requests a second, and the times of the requests in microseconds.
 *
 * <p>Usage: {@code Service SECONDS [WARM_UP]}, a warm-up of as long if nothing is said
 */
public final class Service {
    private static final int THREADS = 2;

    private Service() {}

    public static void main(String[] args) throws Exception {
        double seconds = Double.parseDouble(args[0]);
        double warmUp = args.length > 1 ? Double.parseDouble(args[1]) : seconds;
        long[] counts = new long[3];
        run(warmUp / 2, counts);
        Figures.ready();
        run(warmUp / 2, counts);
        long[] times = run(seconds, counts);
        Figures.print("requests_per_second", times.length / seconds);
        Figures.print("p50_us", times[times.length / 2] / 1e3);
        Figures.print("p99_us", times[(int) (times.length * 0.99)] / 1e3);
        Figures.truth("workloads.Shop.order", counts[0], 0, counts[2]);
        Figures.truth("workloads.Shop.warehouse", counts[1], 0, counts[1]);
        Figures.truth("workloads.Shop.tax", counts[0] * 20, 0, -1);
    }

    /** The times of all requests, sorted. Requests, waits and slow requests are added to the counts. */
    private static long[] run(double seconds, long[] counts) throws InterruptedException {
        Server[] servers = new Server[THREADS];
        long end = System.nanoTime() + (long) (seconds * 1e9);
        for (int i = 0; i < THREADS; i++) {
            servers[i] = new Server(i, end);
            servers[i].start();
        }
        int all = 0;
        for (Server server : servers) {
            server.join();
            all += server.count;
        }
        long[] times = new long[all];
        int filled = 0;
        for (Server server : servers) {
            System.arraycopy(server.times, 0, times, filled, server.count);
            filled += server.count;
            counts[1] += server.shop.waits;
        }
        counts[0] += all;
        counts[2] += Arrays.stream(times).filter(time -> time >= 1_000_000).count();
        Arrays.sort(times);
        return times;
    }

    private static final class Server extends Thread {
        final Shop shop;
        final long end;
        long[] times = new long[1 << 16];
        int count;
        long sum;

        Server(int seed, long end) {
            shop = new Shop(seed);
            this.end = end;
        }

        @Override
        public void run() {
            long begin = System.nanoTime();
            while (begin < end) {
                sum += shop.order(count, count % 100 == 50);
                long now = System.nanoTime();
                if (count == times.length) {
                    times = Arrays.copyOf(times, 2 * count);
                }
                times[count++] = now - begin;
                begin = now;
            }
        }
    }
}
