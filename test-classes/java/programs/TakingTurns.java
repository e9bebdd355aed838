package programs;

/**
 * Pairs of threads that take a monitor in turn. Who has it lets go only when the other waits for it, so that somebody
 * waits each time, however busy the machine is. Prints how often the monitors were taken.
 *
 * <p>Usage: {@code TakingTurns SECONDS}
 */
public final class TakingTurns {
    private static final int PAIRS = 16;
    private static volatile boolean stopped;

    private final Thread[] threads = {new Thread(() -> take(0)), new Thread(() -> take(1))};
    private volatile int last = -1;
    private long taken;

    private TakingTurns() {}

    public static void main(String[] args) throws Exception {
        TakingTurns[] pairs = new TakingTurns[PAIRS];
        for (int i = 0; i < PAIRS; i++) {
            pairs[i] = new TakingTurns();
        }
        for (TakingTurns pair : pairs) {
            pair.threads[0].start();
            pair.threads[1].start();
        }
        Thread.sleep(Long.parseLong(args[0]) * 1_000);
        stopped = true;
        long taken = 0;
        for (TakingTurns pair : pairs) {
            pair.threads[0].join();
            pair.threads[1].join();
            taken += pair.taken;
        }
        System.out.println("taken " + taken);
    }

    private void take(int me) {
        while (!stopped) {
            synchronized (this) {
                taken++;
                last = me;
                while (!stopped && threads[1 - me].getState() != Thread.State.BLOCKED) {
                    Thread.yield();
                }
            }
            while (!stopped && last == me) {
                Thread.yield();
            }
        }
    }
}
