package agents;

import java.lang.instrument.Instrumentation;

/** A Java agent that hands its means to the programs of this package. Its options are classes to load. */
public final class Agent {
    private static volatile Instrumentation instrumentation;

    private Agent() {}

    public static void premain(String options, Instrumentation given) throws ClassNotFoundException {
        instrumentation = given;
        if (options != null) {
            for (String name : options.split(",")) {
                Class.forName(name);
            }
        }
    }

    static Instrumentation instrumentation() {
        return instrumentation;
    }
}
