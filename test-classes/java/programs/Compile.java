package programs;

import java.util.ArrayList;
import java.util.List;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;

/**
 * Compiles sources with the JDK's own compiler, again and again: a large program to profile.
 *
 * <p>Usage: {@code Compile SECONDS OUTPUT SOURCE...}
 */
public final class Compile {
    private Compile() {}

    public static void main(String[] args) {
        long end = System.nanoTime() + Long.parseLong(args[0]) * 1_000_000_000L;
        List<String> arguments = new ArrayList<>(List.of("-nowarn", "-proc:none", "-d", args[1]));
        arguments.addAll(List.of(args).subList(2, args.length));
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        int rounds = 0;
        do {
            if (compiler.run(null, null, null, arguments.toArray(new String[0])) != 0) {
                System.exit(1);
            }
            rounds++;
        } while (System.nanoTime() < end);
        System.out.println("compiled " + (args.length - 2) + " sources " + rounds + " times");
    }
}
