import java.io.File;
import java.util.TreeMap;
import org.openjdk.jmc.common.IMCMethod;
import org.openjdk.jmc.common.IMCStackTrace;
import org.openjdk.jmc.common.item.IItem;
import org.openjdk.jmc.common.item.IItemIterable;
import org.openjdk.jmc.common.item.IMemberAccessor;
import org.openjdk.jmc.common.unit.IQuantity;
import org.openjdk.jmc.common.unit.UnitLookup;
import org.openjdk.jmc.flightrecorder.JfrAttributes;
import org.openjdk.jmc.flightrecorder.JfrLoaderToolkit;

/**
 * Reads a recording with JDK Mission Control's parser: {@code CountEvents FILE} prints {@code TYPE COUNT}, for samples
 * {@code top METHOD COUNT} by the method on top, and {@code durations NANOSECONDS} of all traced calls.
 */
public final class CountEvents {
    private CountEvents() {}

    public static void main(String[] arguments) throws Exception {
        TreeMap<String, Long> counts = new TreeMap<>();
        for (IItemIterable items : JfrLoaderToolkit.loadEvents(new File(arguments[0]))) {
            String type = items.getType().getIdentifier();
            counts.merge(type, items.getItemCount(), Long::sum);
            IMemberAccessor<IMCStackTrace, IItem> stack = JfrAttributes.EVENT_STACKTRACE.getAccessor(items.getType());
            IMemberAccessor<IQuantity, IItem> duration = JfrAttributes.DURATION.getAccessor(items.getType());
            for (IItem item : items) {
                if (type.equals("jdk.ExecutionSample")) {
                    IMCMethod top = stack.getMember(item).getFrames().get(0).getMethod();
                    counts.merge("top " + top.getType().getFullName() + "." + top.getMethodName(), 1L, Long::sum);
                } else if (type.equals("jdk.MethodTrace")) {
                    counts.merge("durations", duration.getMember(item).longValueIn(UnitLookup.NANOSECOND), Long::sum);
                }
            }
        }
        counts.forEach((name, count) -> System.out.println(name + " " + count));
    }
}
