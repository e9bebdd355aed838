import java.io.InputStream;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassHierarchyResolver;
import java.lang.classfile.ClassModel;
import java.lang.constant.ClassDesc;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Verifies every class below a folder with the verifier of java.lang.classfile (JDK 24 and later)
 * and prints each error. Types are looked up among the classes of the folder first, then in the
 * running JDK. Exit status 1 if there was an error.
 *
 * <p>Usage: {@code java VerifyClasses.java FOLDER}
 */
public final class VerifyClasses {
    public static void main(String[] args) throws Exception {
        List<Path> files;
        try (Stream<Path> walk = Files.walk(Path.of(args[0]))) {
            files = walk.filter(p -> p.toString().endsWith(".class")).collect(Collectors.toList());
        }
        // The probe class is the agent's; its methods take an int and return nothing.
        Map<String, Path> byName = new ConcurrentHashMap<>();
        ClassFile plain = ClassFile.of();
        files.parallelStream().forEach(file -> {
            try {
                ClassModel model = plain.parse(Files.readAllBytes(file));
                byName.putIfAbsent(model.thisClass().asSymbol().descriptorString(), file);
            } catch (Exception e) {
                // Reported below.
            }
        });
        ClassHierarchyResolver own = ClassHierarchyResolver.ofResourceParsing((ClassDesc desc) -> {
            Path file = byName.get(desc.descriptorString());
            try {
                return file == null ? null : Files.newInputStream(file);
            } catch (java.io.IOException e) {
                return (InputStream) null;
            }
        });
        ClassFile verifier = ClassFile.of(ClassFile.ClassHierarchyResolverOption.of(
                own.orElse(ClassHierarchyResolver.defaultResolver()).cached(ConcurrentHashMap::new)));
        AtomicLong methods = new AtomicLong();
        List<String> errors = new ArrayList<>();
        files.parallelStream().forEach(file -> {
            try {
                ClassModel model = plain.parse(Files.readAllBytes(file));
                methods.addAndGet(model.methods().size());
                for (VerifyError error : verifier.verify(model)) {
                    synchronized (errors) {
                        errors.add(file + ": " + error.getMessage().lines().findFirst().orElse(""));
                    }
                }
            } catch (Throwable e) {
                synchronized (errors) {
                    errors.add(file + ": " + e);
                }
            }
        });
        errors.stream().sorted().forEach(System.out::println);
        System.out.println("classes " + files.size() + ", methods " + methods + ", errors " + errors.size());
        System.exit(errors.isEmpty() ? 0 : 1);
    }
}
