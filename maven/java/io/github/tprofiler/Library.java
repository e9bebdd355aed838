package io.github.tprofiler;

import java.io.DataInputStream;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.DigestInputStream;
import java.security.MessageDigest;
import java.util.Map;

/**
 * Unpacks the agent's library for this machine, loads it, and deletes it again.
 *
 * <p>It lies in a new folder below java.io.tmpdir that only this user can read and write.
 */
final class Library {
    private static final String NAME = "libtprofiler.so";
    /** The agent defines it in the boot loader. */
    private static final String PROBE_CLASS = "java.lang.invoke.$TProfiler";

    /** The kernel's number for users that have none in a container. */
    private static final int UNKNOWN_USER = 65_534;

    /** The library, once it is loaded. While it is open, {@code tprofiler} can load the deleted file again. */
    private static FileInputStream file;

    private Library() {}

    static boolean isLoaded() {
        synchronized (Command.class) {
            return file != null;
        }
    }

    /** Loads the library, if it is not loaded. Otherwise says why not, in one line. */
    static boolean load() {
        if (file != null) {
            return true;
        }
        String reason;
        try {
            if (hasProbeClass()) {
                tell("the agent is in this JVM, or was, from -agentpath, another jar or another class loader;"
                        + " this copy does nothing");
                return false;
            }
            unpackAndLoad(resource());
            return true;
        } catch (Refusal e) {
            reason = e.getMessage();
        } catch (IOException e) {
            reason = "the library cannot be unpacked in " + temporaryFolder() + ": " + e;
        } catch (UnsatisfiedLinkError e) {
            reason = whyNotLoaded(e);
        } catch (Exception e) {
            reason = e.toString();
        }
        tell(reason + "; profiling is off");
        return false;
    }

    static void tell(String message) {
        System.err.println("tprofiler: " + message.replaceAll("[\r\n]+", " "));
    }

    private static boolean hasProbeClass() {
        try {
            Class.forName(PROBE_CLASS, false, null);
            return true;
        } catch (ClassNotFoundException e) {
            return false;
        }
    }

    /** The library's place in the jar. */
    private static String resource() throws Refusal {
        String version = System.getProperty("java.specification.version", "");
        if (version.startsWith("1.") || version.equals("9") || version.equals("10")) {
            throw new Refusal("Java " + version + " is too old, the agent needs 11 or newer");
        }
        String system = System.getProperty("os.name", "");
        String processor = System.getProperty("os.arch", "");
        boolean isX64 = processor.equals("amd64") || processor.equals("x86_64");
        boolean isArm64 = processor.equals("aarch64");
        if (!system.equals("Linux") || !(isX64 || isArm64)) {
            throw new Refusal("there is no agent for " + system + " on " + processor);
        }
        String resource = (isX64 ? "linux-x64/" : "linux-arm64/") + NAME;
        if (Library.class.getResource(resource) == null) {
            throw new Refusal("this jar has no library for Linux on " + processor);
        }
        return resource;
    }

    private static Path temporaryFolder() {
        return Paths.get(System.getProperty("java.io.tmpdir", "/tmp")).toAbsolutePath();
    }

    private static void unpackAndLoad(String resource) throws Exception {
        Path parent = temporaryFolder().toRealPath();
        for (Path above = parent; above != null; above = above.getParent()) {
            checkAbove(above);
        }
        Path folder = Files.createTempDirectory(parent, "tprofiler-",
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        Path library = folder.resolve(NAME);
        FileInputStream opened = null;
        try {
            checkOwn(folder);
            try (InputStream packed = Library.class.getResourceAsStream(resource)) {
                Files.copy(packed, library);
            }
            opened = new FileInputStream(library.toFile());
            check(opened, resource);
            System.load(library.toString());
            file = opened;
        } finally {
            if (file == null && opened != null) {
                opened.close();
            }
            Files.deleteIfExists(library);
            Files.deleteIfExists(folder);
        }
    }

    /** Checks that nobody else can put another folder in the place of one in this folder. */
    private static void checkAbove(Path above) throws Exception {
        Map<String, Object> is = Files.readAttributes(above, "unix:mode,uid");
        int mode = (Integer) is.get("mode");
        int owner = (Integer) is.get("uid");
        String wrong = null;
        if ((mode & 0022) != 0 && (mode & 01000) == 0) {
            wrong = " can be changed by others and has no sticky bit";
        } else if (owner != 0 && owner != ownUser() && owner != UNKNOWN_USER) {
            wrong = " belongs to user " + owner;
        }
        if (wrong != null) {
            throw new Refusal(above + wrong + "; set -Djava.io.tmpdir to another folder");
        }
    }

    /** Checks that the folder is one of this user alone: a file system may ignore the mode. */
    private static void checkOwn(Path folder) throws Exception {
        Map<String, Object> is = Files.readAttributes(folder, "unix:mode,uid", LinkOption.NOFOLLOW_LINKS);
        int mode = (Integer) is.get("mode");
        if ((mode & 0170777) != 0040700 || (Integer) is.get("uid") != ownUser()) {
            throw new Refusal(folder + " is not a folder of this user alone (mode "
                    + Integer.toOctalString(mode) + ", user " + is.get("uid") + ")");
        }
    }

    /** The user to whom files of this process belong. */
    private static int ownUser() throws Exception {
        for (String line : Files.readAllLines(Paths.get("/proc/self/status"), StandardCharsets.ISO_8859_1)) {
            if (line.startsWith("Uid:")) {
                return Integer.parseUnsignedInt(line.split("\\s+")[4]);
            }
        }
        throw new Refusal("/proc/self/status has no user");
    }

    /** Checks that the unpacked file is the one of the jar. */
    private static void check(FileInputStream unpacked, String resource) throws Exception {
        String expected;
        try (InputStream sum = Library.class.getResourceAsStream(resource + ".sha256")) {
            if (sum == null) {
                throw new Refusal("this jar has no sum of its library");
            }
            byte[] text = new byte[64];
            new DataInputStream(sum).readFully(text);
            expected = new String(text, StandardCharsets.US_ASCII);
        }
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        DigestInputStream stream = new DigestInputStream(unpacked, digest);
        byte[] buffer = new byte[1 << 16];
        while (stream.read(buffer) >= 0) {
            // The stream adds it to the digest.
        }
        StringBuilder actual = new StringBuilder();
        for (byte b : digest.digest()) {
            actual.append(String.format("%02x", b));
        }
        if (!expected.contentEquals(actual)) {
            throw new Refusal("the unpacked library has the SHA-256 sum " + actual + ", not " + expected);
        }
    }

    private static String whyNotLoaded(UnsatisfiedLinkError error) {
        String message = "the library cannot be loaded: " + error.getMessage();
        // What the dynamic linker says, in every language.
        return message.contains("failed to map segment")
                ? message + "; if " + temporaryFolder() + " is mounted noexec, set -Djava.io.tmpdir to another folder"
                : message;
    }

    /** Why the agent cannot be loaded here. */
    private static final class Refusal extends Exception {
        private static final long serialVersionUID = 1;

        Refusal(String message) {
            super(message);
        }
    }
}
