package libraries;

import java.io.File;
import java.util.Map;
import org.osgi.framework.launch.Framework;
import org.osgi.framework.launch.FrameworkFactory;

/**
 * Runs a main class of an OSGi bundle in Apache Felix: its class loader knows the bundle and the
 * java packages, nothing else.
 *
 * <p>Usage: {@code Bundle JAR CACHE CLASS ARGUMENT...}
 */
public final class Bundle {
    private Bundle() {}

    public static void main(String[] args) throws Exception {
        FrameworkFactory factory = new org.apache.felix.framework.FrameworkFactory();
        Framework framework = factory.newFramework(Map.of("org.osgi.framework.storage", args[1]));
        framework.start();
        org.osgi.framework.Bundle bundle =
                framework.getBundleContext().installBundle(new File(args[0]).toURI().toString());
        bundle.start();
        String[] arguments = java.util.Arrays.copyOfRange(args, 3, args.length);
        bundle.loadClass(args[2]).getMethod("main", String[].class).invoke(null, (Object) arguments);
        framework.stop();
        framework.waitForStop(10_000);
    }
}
