package newest;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassHierarchyResolver;
import java.lang.classfile.ClassModel;
import java.lang.classfile.MethodModel;
import java.lang.classfile.attribute.CodeAttribute;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;

/**
 * Checks rewritten classes with the JDK's own class-file library (JDK 24 and later): its verifier
 * finds nothing in them that it does not find in the originals, and each, decoded and with the
 * probes taken out again, equals its original. What is wrong is printed, a line each that begins with
 * the class's number in the file, and last the numbers of what was checked.
 *
 * <p>Usage: {@code CheckClasses FILE}. The file holds records: a byte that is 1 if the class is to be
 * checked and 0 if other classes may only refer to it, then length and bytes of the original, then
 * those of the rewritten class, which is empty if the class stays as it is.
 */
public final class CheckClasses {
    private record Pair(boolean isChecked, byte[] original, byte[] rewritten) {}

    private CheckClasses() {}

    public static void main(String[] args) throws IOException {
        List<Pair> pairs = read(Path.of(args[0]));
        ClassFile verifier = verifier(pairs);
        AtomicLong classes = new AtomicLong();
        AtomicLong methods = new AtomicLong();
        AtomicLong known = new AtomicLong();
        List<String> wrong = new ArrayList<>();
        IntStream.range(0, pairs.size()).parallel().forEach(index -> {
            Pair pair = pairs.get(index);
            if (!pair.isChecked || pair.rewritten.length == 0) {
                return;
            }
            List<String> found = new ArrayList<>();
            try {
                methods.addAndGet(compare(pair, found));
                List<VerifyError> errors = verifier.verify(pair.rewritten);
                if (!errors.isEmpty()) {
                    // By method: one that fails in the original may fail in other words afterwards.
                    Set<String> before = new HashSet<>();
                    verifier.verify(pair.original).forEach(e -> before.add(method(e)));
                    for (VerifyError error : errors) {
                        if (before.contains(method(error))) {
                            known.incrementAndGet();
                        } else {
                            found.add(error.getMessage().lines().findFirst().orElse("?"));
                        }
                    }
                }
            } catch (RuntimeException | IOException | LinkageError e) {
                found.add(e.toString());
            }
            classes.incrementAndGet();
            if (!found.isEmpty()) {
                String name = ClassFile.of().parse(pair.original).thisClass().asInternalName();
                synchronized (wrong) {
                    found.forEach(line -> wrong.add("#" + index + " " + name + ": " + line));
                }
            }
        });
        wrong.stream().sorted().forEach(System.out::println);
        System.out.println("classes " + classes);
        System.out.println("methods " + methods);
        System.out.println("known " + known);
        System.out.println("wrong " + wrong.size());
    }

    private static List<Pair> read(Path file) throws IOException {
        ByteBuffer in = ByteBuffer.wrap(Files.readAllBytes(file));
        List<Pair> pairs = new ArrayList<>();
        while (in.hasRemaining()) {
            boolean isChecked = in.get() == 1;
            byte[] original = new byte[in.getInt()];
            in.get(original);
            byte[] rewritten = new byte[in.getInt()];
            in.get(rewritten);
            pairs.add(new Pair(isChecked, original, rewritten));
        }
        return pairs;
    }

    /** Finds types among the classes of the file first, then in this JVM. */
    private static ClassFile verifier(List<Pair> pairs) {
        Map<String, byte[]> byName = new ConcurrentHashMap<>();
        pairs.parallelStream().forEach(pair -> {
            byte[] bytes = pair.rewritten.length > 0 ? pair.rewritten : pair.original;
            try {
                ClassModel model = ClassFile.of().parse(bytes);
                byName.putIfAbsent(model.thisClass().asSymbol().descriptorString(), bytes);
            } catch (RuntimeException e) {
                // A file that is no class is in nobody's way.
            }
        });
        ClassHierarchyResolver own = ClassHierarchyResolver.ofResourceParsing(name -> {
            byte[] bytes = byName.get(name.descriptorString());
            return bytes == null ? (InputStream) null : new ByteArrayInputStream(bytes);
        });
        ClassHierarchyResolver all = own.orElse(ClassHierarchyResolver.defaultResolver());
        return ClassFile.of(
                ClassFile.ClassHierarchyResolverOption.of(all.cached(ConcurrentHashMap::new)));
    }

    /** Where a verifier's error is: "... at pkg.Class::method(params) @12 ...". */
    private static String method(VerifyError error) {
        String message = error.getMessage();
        int end = message.indexOf(" @");
        int start = message.lastIndexOf(' ', end < 0 ? message.length() : end - 1);
        return end < 0 ? message : message.substring(start + 1, end);
    }

    /** Compares the two classes; the number of methods with probes. */
    private static int compare(Pair pair, List<String> found) throws IOException {
        RawClass before = new RawClass(pair.original);
        RawClass after = new RawClass(pair.rewritten);
        before.compare(after, found);
        ClassModel original = ClassFile.of().parse(pair.original);
        ClassModel rewritten = ClassFile.of().parse(pair.rewritten);
        int methods = 0;
        for (int i = 0; i < original.methods().size(); i++) {
            MethodModel old = original.methods().get(i);
            MethodModel now = rewritten.methods().get(i);
            if (old.code().isEmpty() || before.code(i).equals(after.code(i))) {
                continue;
            }
            methods++;
            String problem = new CompareCode(old, (CodeAttribute) old.code().get(), (CodeAttribute) now.code().get()).run();
            if (problem != null) {
                found.add(old.methodName() + old.methodType().stringValue() + ": " + problem);
            }
        }
        return methods;
    }

    /** A class file cut into its parts, without being understood any further. */
    private static final class RawClass {
        private final ByteBuffer in;
        private final byte[] header = new byte[8];
        private final int poolCount;
        private final ByteBuffer pool;
        private final Map<Integer, String> texts = new HashMap<>();
        /** Everything between the constant pool and the methods, and behind them. */
        private final List<ByteBuffer> rest = new ArrayList<>();
        /** For each method: what is not code, and the code attribute. */
        private final List<List<ByteBuffer>> methods = new ArrayList<>();
        private final TreeMap<Integer, ByteBuffer> codes = new TreeMap<>();

        RawClass(byte[] bytes) {
            in = ByteBuffer.wrap(bytes);
            in.get(header);
            poolCount = u2();
            int start = in.position();
            for (int i = 1; i < poolCount; i++) {
                int tag = in.get();
                switch (tag) {
                    case 1 -> {
                        byte[] text = new byte[u2()];
                        in.get(text);
                        texts.put(i, new String(text, java.nio.charset.StandardCharsets.ISO_8859_1));
                    }
                    case 3, 4, 9, 10, 11, 12, 17, 18 -> skip(4);
                    case 5, 6 -> {
                        skip(8);
                        i++;
                    }
                    case 7, 8, 16, 19, 20 -> skip(2);
                    case 15 -> skip(3);
                    default -> throw new IllegalStateException("tag " + tag);
                }
            }
            pool = from(start);
            start = in.position();
            skip(6);
            skip(2 * u2());
            for (int fields = u2(); fields > 0; fields--) {
                skip(6);
                IntStream.range(0, u2()).forEach(a -> attribute());
            }
            rest.add(from(start));
            int count = u2();
            for (int method = 0; method < count; method++) {
                List<ByteBuffer> parts = new ArrayList<>();
                start = in.position();
                skip(6);
                parts.add(from(start));
                for (int attributes = u2(); attributes > 0; attributes--) {
                    start = in.position();
                    if (texts.get((int) in.getShort(start) & 0xffff).equals("Code")) {
                        attribute();
                        codes.put(method, from(start));
                        parts.add(ByteBuffer.allocate(0));
                    } else {
                        attribute();
                        parts.add(from(start));
                    }
                }
                methods.add(parts);
            }
            start = in.position();
            in.position(in.limit());
            rest.add(from(start));
        }

        private int u2() {
            return in.getShort() & 0xffff;
        }

        private void skip(int bytes) {
            in.position(in.position() + bytes);
        }

        private void attribute() {
            skip(2);
            skip(in.getInt());
        }

        private ByteBuffer from(int start) {
            return in.slice(start, in.position() - start);
        }

        ByteBuffer code(int method) {
            return codes.get(method);
        }

        /** Everything but the code attributes is the same; the pool has only grown. */
        void compare(RawClass after, List<String> found) throws IOException {
            boolean samePool = after.pool.limit() >= pool.limit()
                    && after.poolCount >= poolCount
                    && pool.equals(after.pool.slice(0, pool.limit()));
            if (!samePool) {
                found.add("the constant pool differs");
            }
            if (!java.util.Arrays.equals(header, after.header) || !rest.equals(after.rest)) {
                found.add("something outside the methods differs");
            }
            if (!methods.equals(after.methods) || !codes.keySet().equals(after.codes.keySet())) {
                found.add("something of a method outside its code differs");
            }
        }
    }
}
