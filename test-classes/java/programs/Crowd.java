package programs;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.zip.Deflater;

/**
 * Many threads that call many methods, in stages. A line on stdin is the next stage, and is answered when all
 * threads have done it and wait: {@code one} (each calls one method), {@code call} (each calls its own choice of
 * methods, the same every time), {@code recurse} (some call themselves ten thousand times), {@code deflate} (one works in native
 * code for two seconds); any other is nothing.
 *
 * <p>Usage: {@code Crowd THREADS CALLS CLASSES METHODS}: so many generated classes {@code many.C0} and so on,
 * with so many methods each
 */
public final class Crowd {
    private static final int RECURSING = 20;
    private static final int DEPTH = 10_000;

    private static volatile String stage;

    private Crowd() {}

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[0]);
        int calls = Integer.parseInt(args[1]);
        List<Method> callers = new ArrayList<>();
        for (int i = 0; i < Integer.parseInt(args[2]); i++) {
            callers.add(Class.forName("many.C" + i).getMethod("call", int.class));
        }
        int methods = Integer.parseInt(args[3]);
        CyclicBarrier barrier = new CyclicBarrier(count + 1);
        for (int i = 0; i < count; i++) {
            int number = i;
            Runnable work = () -> {
                for (await(barrier); !stage.equals("end"); await(barrier)) {
                    if (stage.equals("one")) {
                        one();
                    } else if (stage.equals("call")) {
                        call(callers, methods, calls, new SplittableRandom(number));
                    } else if (stage.equals("recurse") && number < RECURSING) {
                        // Once more, so that what is given back is taken again.
                        recurse(DEPTH);
                        recurse(DEPTH);
                    } else if (stage.equals("deflate") && number == 0) {
                        deflate();
                    }
                    await(barrier);
                }
            };
            new Thread(null, work, "crowd-" + i, 8 << 20).start();
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            stage = line;
            await(barrier);
            await(barrier);
            System.out.println(line);
        }
        stage = "end";
        await(barrier);
    }

    private static void deflate() {
        byte[] data = new byte[1 << 20];
        new SplittableRandom(1).nextBytes(data);
        for (long end = System.nanoTime() + 2_000_000_000; System.nanoTime() < end; ) {
            Deflater deflater = new Deflater();
            deflater.setInput(data);
            deflater.finish();
            deflater.deflate(new byte[1 << 10]);
            deflater.end();
        }
    }

    private static void call(List<Method> callers, int methods, int calls, SplittableRandom random) {
        try {
            for (int n = 0; n < calls; n++) {
                callers.get(random.nextInt(callers.size())).invoke(null, random.nextInt(methods));
            }
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e);
        }
    }

    private static void await(CyclicBarrier barrier) {
        try {
            barrier.await();
        } catch (InterruptedException | BrokenBarrierException e) {
            throw new AssertionError(e);
        }
    }

    private static void one() {}

    private static void recurse(int depth) {
        if (depth > 0) {
            recurse(depth - 1);
        }
    }
}
