package paceline;

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.StringJoiner;

/**
 * A member of a group, in a process of its own: what the drivers of all peers have in common.
 *
 * <p>Orders come as lines on standard input, at whose end the process ends: {@code join}, and {@code run BEGIN FROM
 * UNTIL STOP END} with times of {@link Window}. Reports go to standard output, a JSON object in a line each: {@code
 * joined}, {@code ready} once messages reach all members, {@code finished} with what was measured.
 */
abstract class Member {
    protected final Settings settings;
    protected final Deliveries[] deliveries;
    private final PrintStream reports;
    private long sent;
    private volatile Window window;

    /** Takes standard output for reports: what a library prints goes to standard error from here on. */
    Member(Settings settings) {
        this.settings = settings;
        reports = System.out;
        System.setOut(System.err);
        deliveries = new Deliveries[settings.members()];
        for (int origin = 0; origin < deliveries.length; origin += 1) {
            deliveries[origin] = new Deliveries(origin == settings.number(), settings.threadsOfSender());
        }
    }

    /** Becomes a member. */
    abstract void join() throws Exception;

    /** Sends a message to all members, and waits where flow control demands it. */
    abstract void send(byte[] message) throws Exception;

    /** Whether a message counts that was sent and came at these times. */
    abstract boolean isMeasured(Window window, long sentAt, long now);

    /** Obeys orders until standard input ends. */
    final void obey() throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String order = orders.readLine(); order != null; order = orders.readLine()) {
            String[] words = order.split(" ");
            if (words[0].equals("join")) {
                join();
                report("\"report\":\"joined\"");
            } else {
                window = Window.read(words);
                start("measure", this::measure);
            }
        }
    }

    /** Messages reach all members. */
    final void reportReady(String version) {
        String java = System.getProperty("java.version");
        report("\"report\":\"ready\",\"version\":\"" + version + "\",\"java\":\"" + java + "\"");
    }

    /** Notes a message that begins with this head. */
    final void delivered(Head head, int length) {
        long now = Clock.now();
        Window of = window;
        deliveries[head.origin()].add(head, length, now, of != null && isMeasured(of, head.sentAt(), now));
    }

    /** Ends the process: a member that lacks a part would measure nothing of use. */
    static void fail(Throwable error) {
        error.printStackTrace();
        Runtime.getRuntime().halt(1);
    }

    static void start(String name, Runnable run) {
        Thread thread = new Thread(run, name);
        thread.setDaemon(true);
        thread.setUncaughtExceptionHandler((failed, error) -> fail(error));
        thread.start();
    }

    private void measure() {
        List<Latencies> calls = new ArrayList<>();
        for (int thread = 0; thread < settings.threads(); thread += 1) {
            Latencies ofThread = new Latencies();
            calls.add(ofThread);
            int named = thread;
            start("send-" + thread, () -> sendUntilStop(named, ofThread));
        }
        Clock.sleepUntil(window.from());
        long cpuBefore = cpuNanos();
        Clock.sleepUntil(window.until());
        double cpuSeconds = (cpuNanos() - cpuBefore) / 1e9;
        Clock.sleepUntil(window.end());
        reportFinished(cpuSeconds, calls);
    }

    private void sendUntilStop(int thread, Latencies calls) {
        for (long message = 0; ; message += 1) {
            Clock.sleepUntil(window.begin() + settings.firstAfterNanos() + message * settings.intervalNanos());
            Head head = new Head(settings.number(), thread, message, Clock.now());
            if (head.sentAt() >= window.stop()) {
                return;
            }
            try {
                send(head.message(settings.messageBytes()));
            } catch (Exception error) {
                fail(error);
            }
            long now = Clock.now();
            synchronized (calls) {
                if (window.contains(now)) {
                    calls.add(now - head.sentAt());
                }
                if (window.contains(head.sentAt())) {
                    noteSent();
                }
            }
        }
    }

    private synchronized void noteSent() {
        sent += 1;
    }

    private synchronized long sent() {
        return sent;
    }

    private void reportFinished(double cpuSeconds, List<Latencies> calls) {
        Latencies latencies = new Latencies();
        StringJoiner origins = new StringJoiner(",", "[", "]");
        for (int origin = 0; origin < deliveries.length; origin += 1) {
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
        report("\"report\":\"finished\",\"cpu_seconds\":" + cpu + ",\"sent\":" + sent() + ",\"origins\":" + origins
                + ",\"latency_us\":" + latencies.json() + ",\"send_us\":" + sends.json());
    }

    private void report(String fields) {
        synchronized (reports) {
            reports.println("{" + fields + "}");
            reports.flush();
        }
    }

    private static long cpuNanos() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
