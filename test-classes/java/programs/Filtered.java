package programs;

import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.net.URL;
import java.net.URLClassLoader;

/** Methods and classes that filters tell apart. Each method is called once. */
public final class Filtered {
    /** Kept at run time. */
    @Retention(RetentionPolicy.RUNTIME)
    public @interface Timed {
        String value() default "";

        Other[] others() default {};
    }

    /** In the class file only. */
    @Retention(RetentionPolicy.CLASS)
    public @interface Other {
        int[] numbers() default {};

        Class<?> type() default Object.class;

        Thread.State state() default Thread.State.NEW;
    }

    private int number;

    private Filtered() {}

    public static void main(String[] args) throws Exception {
        Filtered filtered = new Filtered();
        filtered.setNumber(5);
        System.out.println(filtered.getNumber() + filtered.timed() + filtered.other() + filtered.plain());
        System.out.println(new Whole().first() + new Whole().second());
        System.out.println(new Order$$EnhancerByTest$$1().call());
        URL here = Filtered.class.getProtectionDomain().getCodeSource().getLocation();
        try (Loader loader = new Loader(new URL[] {here})) {
            Class<?> loaded = loader.loadClass("programs.Filtered$Loaded");
            System.out.println(loaded.getDeclaredMethod("run").invoke(null));
        }
    }

    private int getNumber() {
        return number;
    }

    private void setNumber(int number) {
        this.number = number;
    }

    @Timed(value = "x", others = {@Other(numbers = {1, 2}, type = int.class), @Other})
    private int timed() {
        return plain() * 2;
    }

    @Deprecated
    @Other(state = Thread.State.RUNNABLE)
    private int other() {
        return plain() * 3;
    }

    private int plain() {
        return number + Integer.parseInt("12");
    }

    /** Annotated as a whole. */
    @Timed
    static final class Whole {
        int first() {
            return 1;
        }

        @Other
        int second() {
            return 2;
        }
    }

    /** Named as generated proxies are. */
    static class Order$$EnhancerByTest$$1 {
        int call() {
            return 3;
        }
    }

    /** Loaded by a loader of its own. */
    public static final class Loaded {
        private Loaded() {}

        public static int run() {
            return 4;
        }
    }

    /** Defines {@link Loaded} itself. */
    static final class Loader extends URLClassLoader {
        Loader(URL[] urls) {
            super(urls);
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            return name.endsWith("$Loaded") ? findClass(name) : super.loadClass(name, resolve);
        }
    }
}
