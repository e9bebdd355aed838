package bench;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/**
 * Rewrites all classes of an image with ASM, inserting the same calls as the rewriter does: at the
 * entry, before each return, and in a catch-all handler (of constructors, whose handler would need
 * to know where super(...) is, only the first two). Prints what a class costs, warmed up.
 *
 * <p>Usage: {@code AsmRewrite FILE ROUNDS}
 */
public final class AsmRewrite {
    private static final String PROBE = "java/lang/invoke/$TProfiler";

    private AsmRewrite() {}

    public static void main(String[] args) throws IOException {
        ByteBuffer in = ByteBuffer.wrap(Files.readAllBytes(Path.of(args[0])));
        List<byte[]> classes = new ArrayList<>();
        while (in.hasRemaining()) {
            byte[] bytes = new byte[in.getInt()];
            in.get(bytes);
            classes.add(bytes);
        }
        int rounds = Integer.parseInt(args[1]);
        double[] times = new double[rounds];
        for (int i = 0; i < rounds; i++) {
            nextId = 0;
            long written = 0;
            long start = System.nanoTime();
            for (byte[] bytes : classes) {
                written += rewrite(bytes).length;
            }
            times[i] = (System.nanoTime() - start) / 1e3 / classes.size();
            if (written == 0) {
                throw new IllegalStateException();
            }
        }
        // The first half warms up.
        double[] warm = Arrays.copyOfRange(times, rounds / 2, rounds);
        Arrays.sort(warm);
        System.out.printf("%.2f us a class: ASM, %d methods%n", warm[warm.length / 2], nextId);
    }

    private static int nextId;

    private static byte[] rewrite(byte[] bytes) {
        ClassReader reader = new ClassReader(bytes);
        ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
        reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
            @Override
            public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] exceptions) {
                MethodVisitor method = super.visitMethod(access, name, descriptor, signature, exceptions);
                boolean hasCode = (access & (Opcodes.ACC_ABSTRACT | Opcodes.ACC_NATIVE)) == 0;
                return hasCode && !name.equals("<clinit>") ? new Probes(method, ++nextId, !name.equals("<init>")) : method;
            }
        }, 0);
        return writer.toByteArray();
    }

    private static final class Probes extends MethodVisitor {
        private final int id;
        private final boolean withHandler;
        private final Label start = new Label();

        Probes(MethodVisitor method, int id, boolean withHandler) {
            super(Opcodes.ASM9, method);
            this.id = id;
            this.withHandler = withHandler;
        }

        private void pushId() {
            if (id <= Short.MAX_VALUE) {
                super.visitIntInsn(Opcodes.SIPUSH, id);
            } else {
                super.visitLdcInsn(id);
            }
        }

        private void probe(String name) {
            pushId();
            super.visitMethodInsn(Opcodes.INVOKESTATIC, PROBE, name, "(I)V", false);
        }

        @Override
        public void visitCode() {
            super.visitCode();
            probe("Start");
            super.visitLabel(start);
        }

        @Override
        public void visitInsn(int opcode) {
            if (opcode >= Opcodes.IRETURN && opcode <= Opcodes.RETURN) {
                probe("End");
            }
            super.visitInsn(opcode);
        }

        @Override
        public void visitMaxs(int maxStack, int maxLocals) {
            if (withHandler) {
                Label end = new Label();
                super.visitLabel(end);
                super.visitTryCatchBlock(start, end, end, null);
                super.visitFrame(Opcodes.F_FULL, 0, new Object[0], 1, new Object[] {"java/lang/Throwable"});
                super.visitInsn(Opcodes.DUP);
                pushId();
                super.visitInsn(Opcodes.SWAP);
                super.visitMethodInsn(Opcodes.INVOKESTATIC, PROBE, "Threw", "(ILjava/lang/Object;)V", false);
                super.visitInsn(Opcodes.ATHROW);
            }
            super.visitMaxs(maxStack, maxLocals);
        }
    }
}
