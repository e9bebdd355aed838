import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.Serializable;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.function.Supplier;

/** Type annotations on everything in code that can have them. */
public final class Annotated<@Annotated.Seen("class") T extends @Annotated.Seen("bound") Object> {
    @Target({ElementType.TYPE_USE, ElementType.TYPE_PARAMETER})
    @Retention(RetentionPolicy.RUNTIME)
    @interface Seen {
        String value();

        int[] numbers() default {1, 2};

        Inner[] inner() default {@Inner(Object.class)};
    }

    @interface Inner {
        Class<?> value();
    }

    private final @Seen("field") int n;

    <@Seen("method") U> Annotated(@Seen("parameter") int n, U other) {
        this.n = n;
    }

    static <A, B> B apply(Function<A, B> function, A argument) {
        return function.apply(argument);
    }

    private @Seen("returned") int number() throws @Seen("thrown") IOException {
        if (n > 2) {
            throw new @Seen("new") IOException("large");
        }
        return n;
    }

    static int use(Object o) {
        @Seen(value = "local", numbers = {}, inner = {}) int sum = 0;
        try (@Seen("resource") InputStream in = new ByteArrayInputStream(new byte[] {5})) {
            sum += in.read();
            if (o instanceof @Seen("instanceof") String) {
                @Seen("inner local") String text = (@Seen("cast") String) o;
                sum += text.length();
            }
            Object both = (Serializable & @Seen("second bound") Comparable<@Seen("argument") String>) "x";
            sum += both.hashCode() & 1;
            Annotated<@Seen("type argument") String> a =
                new <@Seen("constructor argument") Integer> @Seen("new") Annotated<@Seen("of new") String>(sum % 5, 7);
            sum += a.number();
            Supplier<@Seen("of supplier") ArrayList<String>> made = @Seen("reference") ArrayList<@Seen("of reference") String>::new;
            Function<Integer, String> valueOf = @Seen("method reference") String::valueOf;
            sum += made.get().size() + valueOf.apply(12).length();
            sum += Annotated.<@Seen("A") Integer, @Seen("B") String>apply(Annotated::<@Seen("of method reference") Integer>text, 4).length();
            Function<Integer, List<String>> sized = ArrayList<String>::<@Seen("of constructor reference") Integer>new;
            sum += sized.apply(3).size();
        } catch (@Seen("exception") IOException | @Seen("other exception") IllegalStateException e) {
            sum += e.getMessage().length();
        }
        return sum;
    }

    private static <X> String text(X x) {
        return "text " + x;
    }

    public static int run() {
        return use("some text") + use(3) + use(null);
    }
}
