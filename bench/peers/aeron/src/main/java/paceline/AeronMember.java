package paceline;

import io.aeron.Aeron;
import io.aeron.ChannelUriStringBuilder;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.driver.ext.DebugReceiveChannelEndpoint;
import io.aeron.driver.ext.DebugSendChannelEndpoint;
import io.aeron.driver.ext.LossGenerator;
import io.aeron.driver.ext.RandomLossGenerator;
import io.aeron.logbuffer.FragmentHandler;
import io.aeron.logbuffer.Header;
import java.io.IOException;
import java.net.StandardSocketOptions;
import java.nio.channels.DatagramChannel;
import java.util.ArrayList;
import java.util.List;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.SleepingIdleStrategy;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * A member of a group by Aeron over UDP multicast: the driver of {@code paceline bench multicast}.
 *
 * <p>Arguments are those of {@link Settings}, and: a folder for the media driver's files, the number of members that
 * send (the first ones), the multicast address with its port, the address of the interface, {@code min} or {@code max}
 * flow control, the share of datagrams that it drops as they arrive, and the seed by which it draws them.
 *
 * <p>A sender's stream has the sender's number, and a member subscribes to those of the others: so it does not receive
 * its own messages.
 */
public final class AeronMember extends Member implements FragmentHandler {
    /** What SO_RCVBUF and SO_SNDBUF are set to, as far as the kernel grants it. */
    private static final int SOCKET_BUFFER_BYTES = 2 << 20;
    /** What a receiver lets a sender have under way, if its socket buffer is as large: a gap must not stop senders. */
    private static final int WINDOW_BYTES_MAX = 1 << 20;
    /** Of a stream's log, which has three terms at each member. */
    private static final int TERM_BYTES = 4 << 20;
    private static final int FRAGMENTS_OF_A_POLL = 64;
    private static final long IDLE_NANOS = 250_000;

    private final String folder;
    private final int senders;
    private final String endpoint;
    private final String networkInterface;
    private final String flowControl;
    private final double loss;
    private final long seed;
    private final byte[] head = new byte[Head.BYTES];
    private final List<Subscription> subscriptions = new ArrayList<>();
    private Publication publication;

    private AeronMember(String[] arguments) {
        super(Settings.read(arguments));
        int next = Settings.ARGUMENTS;
        folder = arguments[next];
        senders = Integer.parseInt(arguments[next + 1]);
        endpoint = arguments[next + 2];
        networkInterface = arguments[next + 3];
        flowControl = arguments[next + 4];
        loss = Double.parseDouble(arguments[next + 5]);
        seed = Long.parseLong(arguments[next + 6]);
    }

    /** Runs it until standard input ends. */
    public static void main(String[] arguments) {
        try {
            new AeronMember(arguments).obey();
        } catch (Exception error) {
            fail(error);
        }
        // Threads of Aeron would keep the process alive. The process that started it removes the folder.
        Runtime.getRuntime().halt(0);
    }

    @Override
    void join() throws IOException {
        MediaDriver driver = MediaDriver.launch(driverContext());
        Aeron aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(driver.aeronDirectoryName()));
        if (settings.threads() > 0) {
            publication = aeron.addPublication(channel().flowControl(flowControl).build(), settings.number());
        }
        for (int sender = 0; sender < senders; sender += 1) {
            if (sender != settings.number()) {
                subscriptions.add(aeron.addSubscription(channel().build(), sender));
            }
        }
        start("poll", this::poll);
    }

    private MediaDriver.Context driverContext() throws IOException {
        int window = Math.min(grantedReceiveBufferBytes(), WINDOW_BYTES_MAX);
        MediaDriver.Context context = new MediaDriver.Context()
                .aeronDirectoryName(folder)
                .dirDeleteOnStart(true)
                .warnIfDirectoryExists(false)
                .threadingMode(ThreadingMode.SHARED)
                .sharedIdleStrategy(idleStrategy())
                .socketRcvbufLength(Math.max(window, SOCKET_BUFFER_BYTES))
                .socketSndbufLength(SOCKET_BUFFER_BYTES)
                .initialWindowLength(window)
                .publicationTermBufferLength(TERM_BYTES)
                .nakMulticastGroupSize(settings.members() - 1);
        if (loss > 0) {
            // What arrives is data at receivers, and status messages and NAKs at senders.
            LossGenerator data = new RandomLossGenerator(loss, seed);
            LossGenerator control = new RandomLossGenerator(loss, ~seed);
            LossGenerator none = (address, buffer, length) -> false;
            context.receiveChannelEndpointSupplier((channel, dispatcher, status, of) ->
                    new DebugReceiveChannelEndpoint(channel, dispatcher, status, of, data, none));
            context.sendChannelEndpointSupplier((channel, status, of) ->
                    new DebugSendChannelEndpoint(channel, status, of, none, control));
        }
        return context;
    }

    private static int grantedReceiveBufferBytes() throws IOException {
        try (DatagramChannel probe = DatagramChannel.open()) {
            probe.setOption(StandardSocketOptions.SO_RCVBUF, SOCKET_BUFFER_BYTES);
            return probe.getOption(StandardSocketOptions.SO_RCVBUF);
        }
    }

    private ChannelUriStringBuilder channel() {
        return new ChannelUriStringBuilder().media("udp").endpoint(endpoint).networkInterface(networkInterface);
    }

    /** Members share few cores: they sleep, since those that spin or yield keep each other waiting. */
    private static IdleStrategy idleStrategy() {
        return new SleepingIdleStrategy(IDLE_NANOS);
    }

    private void poll() {
        IdleStrategy idle = idleStrategy();
        boolean isReady = false;
        while (true) {
            if (!isReady && reachesAll()) {
                isReady = true;
                reportReady(MediaDriver.class.getPackage().getImplementationVersion());
            }
            int fragments = 0;
            for (Subscription subscription : subscriptions) {
                fragments += subscription.poll(this, FRAGMENTS_OF_A_POLL);
            }
            idle.idle(fragments);
        }
    }

    /** Whether it hears all senders and is heard, if it is one. */
    private boolean reachesAll() {
        boolean isHeard = publication == null || publication.isConnected();
        return isHeard && subscriptions.stream().allMatch(Subscription::isConnected);
    }

    @Override
    public void onFragment(DirectBuffer buffer, int offset, int length, Header header) {
        buffer.getBytes(offset, head);
        delivered(Head.read(head, 0), length);
    }

    @Override
    void send(byte[] message) {
        UnsafeBuffer buffer = new UnsafeBuffer(message);
        IdleStrategy idle = idleStrategy();
        for (long result = publication.offer(buffer); result < 0; result = publication.offer(buffer)) {
            if (result == Publication.CLOSED || result == Publication.MAX_POSITION_EXCEEDED) {
                throw new IllegalStateException("Aeron takes no message: " + Publication.errorString(result));
            }
            idle.idle();
        }
    }

    /** The way of each message is measured: what was sent within the measured time counts, however late it comes. */
    @Override
    boolean isMeasured(Window window, long sentAt, long now) {
        return window.contains(sentAt);
    }
}
