package paceline;

/** What a member delivered of one origin. */
final class Deliveries {
    private final boolean isOwn;
    /** By thread of the origin, the number of the message that must come next. */
    private final long[] next;
    private final Latencies latencies = new Latencies();
    private long messages;
    private long bytes;
    private long misplaced;

    Deliveries(boolean isOwn, int threads) {
        this.isOwn = isOwn;
        this.next = new long[threads];
    }

    /** Notes a message. All must come in order; those count that are measured. */
    synchronized void add(Head head, int length, long now, boolean isMeasured) {
        if (head.number() != next[head.thread()]) {
            misplaced += 1;
        }
        next[head.thread()] = head.number() + 1;
        if (!isMeasured) {
            return;
        }
        messages += 1;
        bytes += length;
        if (!isOwn) {
            latencies.add(now - head.sentAt());
        }
    }

    synchronized void addLatenciesTo(Latencies all) {
        all.addAll(latencies);
    }

    synchronized String json(int origin) {
        return "{\"origin\":" + origin + ",\"messages\":" + messages + ",\"bytes\":" + bytes
                + ",\"misplaced\":" + misplaced + "}";
    }
}
