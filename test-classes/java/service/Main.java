package service;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.LongAdder;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.management.JMException;
import javax.management.ObjectName;

/**
 * A service: an HTTP server with a database in memory. It prints its port; a line on its stdin is answered
 * with what was called so far, {@code collect} after a collection, with the kilobytes that the JVM counts
 * as its own; and it ends when stdin does.
 */
public final class Main {
    private final Orders orders = new Orders();
    private final LongAdder requests = new LongAdder();

    private Main() {}

    public static void main(String[] args) throws IOException {
        Main service = new Main();
        HttpServer server =
                HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 50);
        ExecutorService threads = Executors.newFixedThreadPool(8);
        server.setExecutor(threads);
        server.createContext("/", service::handle);
        server.start();
        System.out.println("port " + server.getAddress().getPort());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String own = "";
            if (line.equals("collect")) {
                // Old versions of classes that were changed go only with a full collection.
                System.gc();
                trim();
                own = " jvm " + ownKilobytes();
            }
            System.out.println(service.counts() + own);
        }
        server.stop(0);
        threads.shutdown();
    }

    /** What native memory tracking says is committed, heap and classes included. */
    private static String ownKilobytes() {
        try {
            Object[] summary = {new String[] {"summary"}};
            String told = ask("vmNativeMemory", summary, String[].class.getName());
            Matcher total = Pattern.compile("Total:.* committed=(\\d+)KB").matcher(told);
            return total.find() ? total.group(1) : "unknown";
        } catch (JMException e) {
            return "unknown";
        }
    }

    /** Gives back to the system what the C library keeps of freed memory, if this JVM can. */
    private static void trim() {
        try {
            ask("systemTrimNativeHeap", new Object[0]);
        } catch (JMException e) {
            // JDK 11 cannot.
        }
    }

    private static String ask(String command, Object[] arguments, String... types)
            throws JMException {
        ObjectName commands = new ObjectName("com.sun.management:type=DiagnosticCommand");
        return (String) ManagementFactory.getPlatformMBeanServer()
                .invoke(commands, command, arguments, types);
    }

    private String counts() {
        return "requests " + requests + " inserts " + orders.inserts + " finds " + orders.finds
                + " missing " + orders.missing + " sums " + orders.sums;
    }

    private void handle(HttpExchange exchange) throws IOException {
        requests.increment();
        int status = 200;
        String answer;
        try {
            answer = answer(exchange.getRequestURI().getPath().split("/"));
        } catch (IllegalArgumentException e) {
            status = 404;
            answer = e.getMessage();
        }
        byte[] bytes = answer.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(status, bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }

    private String answer(String[] path) {
        switch (path[1]) {
            case "order":
                return "order " + orders.insert(path[2], Long.parseLong(path[3]));
            case "find":
                return orders.find(Long.parseLong(path[2])).text();
            case "sum":
                return orders.sum(path[2]);
            default:
                throw new IllegalArgumentException("no such page");
        }
    }
}
