package programs;

/**
 * Ends in one of the ways in which programs end, with calls open in two threads.
 *
 * <p>Usage: {@code Exits return|exit|halt|throw|wait}
 */
public final class Exits {
    private Exits() {}

    public static void main(String[] args) throws Exception {
        Thread daemon = new Thread(Exits::idle, "idle daemon");
        daemon.setDaemon(true);
        daemon.start();
        Runtime.getRuntime().addShutdownHook(new Thread(Exits::hook, "hook"));
        work();
        System.out.println("worked");
        end(args[0]);
    }

    private static void work() throws InterruptedException {
        Thread.sleep(30);
    }

    private static void idle() {
        try {
            Thread.sleep(600_000);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Runs after exit began: it is still recorded. */
    private static void hook() {
        System.out.println("hook");
    }

    private static void end(String how) throws InterruptedException {
        switch (how) {
            case "return":
                return;
            case "exit":
                System.exit(3);
                break;
            case "halt":
                Runtime.getRuntime().halt(4);
                break;
            case "throw":
                throw new IllegalStateException("thrown by main");
            case "wait":
                Thread.sleep(600_000);
                break;
            default:
                throw new IllegalArgumentException(how);
        }
    }
}
