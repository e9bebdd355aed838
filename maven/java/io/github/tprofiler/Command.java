package io.github.tprofiler;

/** A command to the agent, which its library carries out. */
final class Command implements Runnable {
    static final int PREMAIN = 0;
    static final int START = 1;
    static final int STOP = 2;

    /** The command is carried out. */
    static final int OK = 0;
    /** The agent's library or the JVM refuses it. */
    private static final int REFUSED = 4;
    /** The JVM must not go on. */
    static final int STRICT = 6;

    private final int kind;
    /** Null if the agent keeps those that it has. */
    private final String options;
    /** Set by the library. */
    private int code = REFUSED;

    private Command(int kind, String options) {
        this.kind = kind;
        this.options = options;
    }

    /** Carries out a command, with one at a time. */
    static synchronized int run(int kind, String options) {
        boolean isInterrupted = false;
        try {
            if (!Library.load()) {
                return REFUSED;
            }
            Command command = new Command(kind, options);
            // The library needs a plain thread, which no class of the application has called.
            Thread thread = new Thread(command, "tprofiler-command");
            thread.setDaemon(true);
            // The agent's thread gets the same one, and must not keep that of a web application.
            thread.setContextClassLoader(null);
            thread.setUncaughtExceptionHandler((ended, e) -> Library.tell(e.toString()));
            thread.start();
            while (true) {
                try {
                    thread.join();
                    return command.code;
                } catch (InterruptedException e) {
                    isInterrupted = true;
                }
            }
        } catch (Throwable e) {
            Library.tell(e.toString());
            return REFUSED;
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    @Override
    public native void run();
}
