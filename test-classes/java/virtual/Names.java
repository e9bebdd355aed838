package virtual;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.SynchronousQueue;

/** A virtual thread with a name, which makes a call of some milliseconds for each line on stdin. */
public final class Names {
    private static final SynchronousQueue<String> LINES = new SynchronousQueue<>();
    private static final SynchronousQueue<String> DONE = new SynchronousQueue<>();

    private Names() {}

    public static void main(String[] args) throws Exception {
        Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
        Class<?> type = Class.forName("java.lang.Thread$Builder");
        builder = type.getMethod("name", String.class).invoke(builder, "payments");
        type.getMethod("start", Runnable.class).invoke(builder, (Runnable) Names::loop);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            LINES.put(line);
            System.out.println(DONE.take());
        }
    }

    private static void loop() {
        try {
            while (true) {
                String line = LINES.take();
                pause();
                DONE.put(line);
            }
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private static void pause() throws InterruptedException {
        Thread.sleep(5);
    }
}
