package paceline;

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.StringJoiner;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.Version;
import org.jgroups.View;

/**
 * A member of a JGroups cluster, in a process of its own: the driver of {@code paceline bench broadcast}.
 *
 * <p>Arguments: its number, the number of members, bytes of a message, threads that send (0 for a member that does not
 * send), threads of any sender, and nanoseconds between two messages of a thread (0 for as fast as they are accepted).
 * Addresses are JGroups' own system properties, as daisychain.xml names them.
 *
 * <p>Orders come as lines on standard input, at whose end the process ends: {@code join}, and {@code run BEGIN FROM
 * UNTIL} with times of {@link Window}. Reports go to standard output, a JSON object in a line each: {@code joined},
 * {@code ready} once all members are in the view, {@code finished} with what was measured.
 */
public final class Member implements Receiver {
    private static final String CLUSTER = "paceline";

    private final PrintStream reports;
    private final int number;
    private final int members;
    private final int messageBytes;
    private final int threads;
    private final long intervalNanos;
    private final Deliveries[] deliveries;
    private final JChannel channel;
    private boolean isReady;
    private volatile Window window;

    private Member(String[] arguments, PrintStream reports) throws Exception {
        this.reports = reports;
        number = Integer.parseInt(arguments[0]);
        members = Integer.parseInt(arguments[1]);
        messageBytes = Integer.parseInt(arguments[2]);
        threads = Integer.parseInt(arguments[3]);
        int threadsOfSender = Integer.parseInt(arguments[4]);
        intervalNanos = Long.parseLong(arguments[5]);
        deliveries = new Deliveries[members];
        for (int origin = 0; origin < members; origin += 1) {
            deliveries[origin] = new Deliveries(origin == number, threadsOfSender);
        }
        try (InputStream stack = Member.class.getResourceAsStream("/daisychain.xml")) {
            channel = new JChannel(stack);
        }
        channel.setReceiver(this);
    }

    /** Runs it until standard input ends. */
    public static void main(String[] arguments) {
        PrintStream reports = System.out;
        // What JGroups prints must not stand among the reports.
        System.setOut(System.err);
        try {
            new Member(arguments, reports).obey();
        } catch (Exception error) {
            fail(error);
        }
        // Threads of JGroups would keep the process alive, and leaving the cluster takes time.
        Runtime.getRuntime().halt(0);
    }

    private static void fail(Exception error) {
        error.printStackTrace();
        Runtime.getRuntime().halt(1);
    }

    private void obey() throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String order = orders.readLine(); order != null; order = orders.readLine()) {
            String[] words = order.split(" ");
            if (words[0].equals("join")) {
                channel.connect(CLUSTER);
                report("\"report\":\"joined\"");
            } else {
                long begin = Long.parseLong(words[1]);
                window = new Window(begin, Long.parseLong(words[2]), Long.parseLong(words[3]));
                start("measure", this::measure);
            }
        }
    }

    @Override
    public void viewAccepted(View view) {
        if (view.size() == members && !isReady) {
            isReady = true;
            String java = System.getProperty("java.version");
            report("\"report\":\"ready\",\"version\":\"" + Version.printVersion() + "\",\"java\":\"" + java + "\"");
        }
    }

    @Override
    public void receive(Message message) {
        long now = Clock.now();
        Head head = Head.read(message.getArray(), message.getOffset());
        deliveries[head.origin()].add(head, message.getLength(), now, window);
    }

    private void measure() {
        List<Latencies> calls = new ArrayList<>();
        for (int thread = 0; thread < threads; thread += 1) {
            Latencies ofThread = new Latencies();
            calls.add(ofThread);
            int named = thread;
            start("send-" + thread, () -> send(named, ofThread));
        }
        Clock.sleepUntil(window.from());
        long cpuBefore = cpuNanos();
        Clock.sleepUntil(window.until());
        double cpuSeconds = (cpuNanos() - cpuBefore) / 1e9;
        reportFinished(cpuSeconds, calls);
    }

    /** Sends until the measured time ends. */
    private void send(int thread, Latencies calls) {
        for (long message = 0; ; message += 1) {
            Clock.sleepUntil(window.begin() + message * intervalNanos);
            Head head = new Head(number, thread, message, Clock.now());
            if (head.sentAt() >= window.until()) {
                return;
            }
            try {
                channel.send(new BytesMessage(null, head.message(messageBytes)));
            } catch (Exception error) {
                fail(error);
            }
            long now = Clock.now();
            if (window.contains(now)) {
                synchronized (calls) {
                    calls.add(now - head.sentAt());
                }
            }
        }
    }

    private void reportFinished(double cpuSeconds, List<Latencies> calls) {
        Latencies latencies = new Latencies();
        StringJoiner origins = new StringJoiner(",", "[", "]");
        for (int origin = 0; origin < members; origin += 1) {
            origins.add(deliveries[origin].json(origin));
            deliveries[origin].addLatenciesTo(latencies);
        }
        Latencies sends = new Latencies();
        for (Latencies ofThread : calls) {
            synchronized (ofThread) {
                sends.addAll(ofThread);
            }
        }
        String cpu = String.format(Locale.ROOT, "%.6f", cpuSeconds);
        report("\"report\":\"finished\",\"cpu_seconds\":" + cpu + ",\"origins\":" + origins + ",\"latency_us\":"
                + latencies.json() + ",\"send_us\":" + sends.json());
    }

    private void report(String fields) {
        synchronized (reports) {
            reports.println("{" + fields + "}");
            reports.flush();
        }
    }

    private static void start(String name, Runnable run) {
        Thread thread = new Thread(run, name);
        thread.setDaemon(true);
        thread.start();
    }

    private static long cpuNanos() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
