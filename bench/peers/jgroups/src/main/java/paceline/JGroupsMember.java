package paceline;

import java.io.InputStream;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.Version;
import org.jgroups.View;

/**
 * A member of a JGroups cluster: the driver of {@code paceline bench broadcast}.
 *
 * <p>Arguments are those of {@link Settings}. Addresses are JGroups' own system properties, as daisychain.xml names
 * them.
 */
public final class JGroupsMember extends Member implements Receiver {
    private static final String CLUSTER = "paceline";

    private final JChannel channel;
    private boolean isReady;

    private JGroupsMember(Settings settings) throws Exception {
        super(settings);
        try (InputStream stack = JGroupsMember.class.getResourceAsStream("/daisychain.xml")) {
            channel = new JChannel(stack);
        }
        channel.setReceiver(this);
    }

    /** Runs it until standard input ends. */
    public static void main(String[] arguments) {
        try {
            new JGroupsMember(Settings.read(arguments)).obey();
        } catch (Exception error) {
            fail(error);
        }
        // Threads of JGroups would keep the process alive, and leaving the cluster takes time.
        Runtime.getRuntime().halt(0);
    }

    @Override
    void join() throws Exception {
        channel.connect(CLUSTER);
    }

    @Override
    void send(byte[] message) throws Exception {
        channel.send(new BytesMessage(null, message));
    }

    /** Throughput is measured: what was delivered within the measured time counts. */
    @Override
    boolean isMeasured(Window window, long sentAt, long now) {
        return window.contains(now);
    }

    @Override
    public void viewAccepted(View view) {
        if (view.size() == settings.members() && !isReady) {
            isReady = true;
            reportReady(Version.printVersion());
        }
    }

    @Override
    public void receive(Message message) {
        delivered(Head.read(message.getArray(), message.getOffset()), message.getLength());
    }
}
