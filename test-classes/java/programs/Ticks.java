package programs;

import java.io.FileInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Calls a method that takes two milliseconds, and says so after each call, with its number and the
 * time in milliseconds. A file in its folder tells it what to do: {@code exhaust} to take all file
 * descriptors there are and will be, whereupon it deletes that file, {@code release} to give them
 * back, {@code stop} to print how often it has called and to end.
 *
 * <p>Usage: {@code Ticks FOLDER}
 */
public final class Ticks {
    private static final List<FileInputStream> TAKEN = new ArrayList<>();

    private Ticks() {}

    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]);
        // Whatever the program needs for it is loaded while files can be opened.
        exhaust(1);
        release();
        int ticks = 0;
        while (!Files.exists(folder.resolve("stop"))) {
            tick();
            ticks++;
            System.out.println("tick " + ticks + " " + System.currentTimeMillis());
            if (!TAKEN.isEmpty() && Files.exists(folder.resolve("release"))) {
                release();
                System.out.println("released");
                Files.delete(folder.resolve("release"));
            } else if (!TAKEN.isEmpty()) {
                // Others in the process give some back: what they closed is taken as well.
                exhaust(Integer.MAX_VALUE);
            } else if (Files.exists(folder.resolve("exhaust"))) {
                exhaust(Integer.MAX_VALUE);
                System.out.println("exhausted");
                Files.delete(folder.resolve("exhaust"));
            }
        }
        System.out.println("ticks " + ticks);
    }

    private static void tick() throws InterruptedException {
        Thread.sleep(2);
    }

    private static void exhaust(int most) {
        try {
            while (TAKEN.size() < most) {
                TAKEN.add(new FileInputStream("/dev/null"));
            }
        } catch (IOException e) {
            // There are no more.
        }
    }

    private static void release() throws IOException {
        for (FileInputStream file : TAKEN) {
            file.close();
        }
        TAKEN.clear();
    }
}
