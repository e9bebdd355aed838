package programs;

/** A thread with a name of so many letters makes a call of 20 ms: {@code LongNames LETTERS}. */
public final class LongNames {
    private LongNames() {}

    private static void slow() throws InterruptedException {
        Thread.sleep(20);
    }

    public static void main(String[] args) throws Exception {
        Runnable work = () -> {
            try {
                slow();
                // The thread is named while it lives.
                Thread.sleep(1_500);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        };
        Thread thread = new Thread(work, "n".repeat(Integer.parseInt(args[0])));
        thread.start();
        thread.join();
    }
}
