package programs;

/** A class loader that stands in for the application's, with {@code -Djava.system.class.loader}. */
public final class OwnLoader extends ClassLoader {
    public OwnLoader(ClassLoader parent) {
        super(parent);
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
        System.out.println("asked for " + name);
        return super.loadClass(name, resolve);
    }
}
