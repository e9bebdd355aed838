package io.github.tprofiler;

/**
 * Starts and stops the tprofiler agent in this JVM.
 *
 * <p>With {@code -javaagent:tprofiler-agent.jar=include=com.shop,logs=/var/log/tprofiler}, the agent begins before the
 * program's main method. As a dependency, {@link #start(String)} begins it. The options are those of
 * {@code -agentpath}; nothing else of the program changes.
 *
 * <p>No method throws an exception because of the agent: what goes wrong is one line on stderr, and the program goes
 * on without profiling. A JVM has one agent. A second copy of these classes, in another class loader, does nothing
 * but print a line.
 *
 * <p>Supported are JDK 11 and newer on Linux, x86-64 and arm64.
 */
public final class Tprofiler {
    private Tprofiler() {}

    /**
     * Begins a run before the program's main method; the JVM calls it for {@code -javaagent}. It returns when recording
     * is on.
     *
     * @param options the text after {@code tprofiler-agent.jar=}, or null
     */
    public static void premain(String options) {
        if (Command.run(Command.PREMAIN, options == null ? "" : options) == Command.STRICT) {
            // What the JVM itself does if an agent does not let it start.
            Runtime.getRuntime().halt(1);
        }
    }

    /**
     * Begins a run in a running JVM; the JVM calls it if a tool attaches this jar.
     *
     * @param options the text after {@code tprofiler-agent.jar=}, or null
     */
    public static void agentmain(String options) {
        start(options == null ? "" : options);
    }

    /**
     * Begins recording: as {@code tprofiler start} if the agent is active, else a run without options, whose logs are
     * in the folder {@code logs}.
     *
     * @return whether the agent is active
     */
    public static boolean start() {
        return Command.run(Command.START, null) == Command.OK;
    }

    /**
     * Begins a run with these options. It returns when calls are recorded. If the agent is active, its options stay as
     * they are, and recording begins if it is off.
     *
     * @param options as after {@code -agentpath:libtprofiler.so=}: {@code include=com.shop,logs=/var/log/tprofiler}
     * @return whether the agent is active
     */
    public static boolean start(String options) {
        return Command.run(Command.START, options) == Command.OK;
    }

    /**
     * Ends recording and writes everything up to now, as {@code tprofiler stop}. The agent stays: {@link #start()}
     * goes on, in the same run.
     *
     * @return whether the agent is active
     */
    public static boolean stop() {
        return Library.isLoaded() && Command.run(Command.STOP, null) == Command.OK;
    }
}
