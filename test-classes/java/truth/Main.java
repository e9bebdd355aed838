package truth;

import java.util.List;

/** Runs all programs of this package and writes what they counted to the file named first. */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws Exception {
        Count.call("truth.Main main ([Ljava/lang/String;)V");
        int rounds = Integer.parseInt(args[1]);
        Calls calls = new Calls();
        Exceptions exceptions = new Exceptions();
        for (int i = 0; i < rounds; i++) {
            calls.round(i);
            exceptions.round(i);
        }
        Constructors.run(100_000);
        Monitors.run(rounds);
        Overflow.run(5);
        Shapes.run(rounds);
        Threads.run(List.of("alpha", "beta", "gamma, with a comma", "delta \"quoted\""), rounds);
        Count.write(args[0]);
        System.out.println("done");
    }
}
