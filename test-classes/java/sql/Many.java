package sql;

import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

/**
 * Very many statements, texts and drivers. Usage: {@code Many held COUNT}, {@code Many texts COUNT},
 * {@code Many collected COUNT CLASSES H2}, with the folder of these classes and the jar of H2; prints
 * {@code total EXECUTIONS THROWS}, with tabs between, and what is expected of texts.
 */
public final class Many {
    private static long executions;

    private Many() {}

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[1]);
        switch (args[0]) {
            case "held":
                held(count);
                break;
            case "texts":
                texts(count);
                break;
            default:
                collected(count, Path.of(args[2]).toUri().toURL(), Path.of(args[3]).toUri().toURL());
        }
        System.out.println("total\t" + executions + "\t0");
        Expected.print();
    }

    /** Prepares statements of 100 texts, keeps them all open, and executes each twice. */
    private static void held(int count) throws SQLException {
        try (Connection connection = new Database("own", "").open()) {
            List<PreparedStatement> open = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                open.add(connection.prepareStatement("get a" + i % 100));
            }
            for (int round = 0; round < 2; round++) {
                for (int i = 0; i < count; i++) {
                    open.get(i).execute();
                    executions++;
                    Expected.runs("get a" + i % 100);
                }
            }
            for (PreparedStatement statement : open) {
                statement.close();
            }
        }
    }

    /** Executes as many texts, each once as it is, and half of them prepared. */
    private static void texts(int count) throws SQLException {
        try (Connection connection = new Database("h2", "texts").open();
                Statement statement = connection.createStatement()) {
            for (int i = 0; i < count; i++) {
                Statements.read(statement.executeQuery("select 1 as a" + i));
                executions++;
                if (i % 2 == 0) {
                    try (PreparedStatement prepared = connection.prepareStatement("select 2 as a" + i)) {
                        Statements.read(prepared.executeQuery());
                        executions++;
                    }
                }
            }
        }
    }

    /** Loads the driver again and again, and waits until its class loaders and statements are gone. */
    private static void collected(int count, URL own, URL h2) throws Exception {
        List<WeakReference<Object>> all = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            use(own, "sql.Own", Own.URL, all);
            use(h2, "org.h2.Driver", "jdbc:h2:mem:collected", all);
        }
        try (Connection connection = new Database("own", "").open()) {
            for (int i = 0; i < 1_000; i++) {
                all.add(new WeakReference<>(execute(connection)));
            }
            for (int i = 0; i < 100 && remaining(all) > 0; i++) {
                System.gc();
                Thread.sleep(20);
            }
        }
        System.out.println("remaining " + remaining(all) + " of " + all.size());
        Expected.runs("call ?", executions);
    }

    private static void use(URL classes, String name, String url, List<WeakReference<Object>> all)
            throws Exception {
        try (URLClassLoader loader =
                new URLClassLoader(new URL[] {classes}, ClassLoader.getPlatformClassLoader())) {
            Class<?> type = loader.loadClass(name);
            Driver driver = (Driver) type.getDeclaredConstructor().newInstance();
            try (Connection connection = driver.connect(url, new Properties())) {
                all.add(new WeakReference<>(execute(connection)));
                all.add(new WeakReference<>(connection));
            }
            all.add(new WeakReference<>(loader));
            if (name.startsWith("org.h2.")) {
                // It is registered.
                type.getMethod("unload").invoke(null);
            }
        }
    }

    private static Object execute(Connection connection) throws SQLException {
        // It is not closed.
        PreparedStatement statement = connection.prepareStatement("call 7");
        statement.execute();
        executions++;
        return statement;
    }

    private static long remaining(List<WeakReference<Object>> all) {
        return all.stream().filter(reference -> reference.get() != null).count();
    }
}
