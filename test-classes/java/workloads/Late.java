package workloads;

import java.util.Arrays;

/**
 * A program that has nothing to do for a while after its start, as a service before its first requests, and then is
 * another one.
 *
 * <p>Usage: {@code Late SECONDS CLASS ARGUMENTS}
 */
public final class Late {
    private Late() {}

    public static void main(String[] args) throws Exception {
        Thread.sleep(1_000 * Long.parseLong(args[0]));
        String[] rest = Arrays.copyOfRange(args, 2, args.length);
        Class.forName(args[1]).getMethod("main", String[].class).invoke(null, (Object) rest);
    }
}
