package paceline;

/** A histogram of durations in microseconds, exact below 2,048 and to 0.1 % above. Not thread-safe. */
final class Latencies {
    /** Bits of a duration that its bucket keeps, below the leading one. */
    private static final int KEPT_BITS = 10;
    private static final long MICROS_MAX = (1L << 40) - 1;

    private final long[] counts = new long[place(MICROS_MAX) + 1];

    void add(long nanos) {
        counts[place(Math.max(0, Math.min(nanos / 1_000, MICROS_MAX)))] += 1;
    }

    void addAll(Latencies other) {
        for (int place = 0; place < counts.length; place += 1) {
            counts[place] += other.counts[place];
        }
    }

    /** Pairs of microseconds and how often, ascending, as a JSON array. */
    String json() {
        StringBuilder pairs = new StringBuilder("[");
        for (int place = 0; place < counts.length; place += 1) {
            if (counts[place] > 0) {
                pairs.append(pairs.length() == 1 ? "[" : ",[");
                pairs.append(micros(place)).append(',').append(counts[place]).append(']');
            }
        }
        return pairs.append(']').toString();
    }

    private static int place(long micros) {
        int bits = Long.SIZE - Long.numberOfLeadingZeros(micros);
        int shift = Math.max(0, bits - KEPT_BITS - 1);
        return (shift << KEPT_BITS) + (int) (micros >> shift);
    }

    /** The least duration of a bucket. */
    private static long micros(int place) {
        int shift = Math.max(0, (place >> KEPT_BITS) - 1);
        return (long) (place - (shift << KEPT_BITS)) << shift;
    }
}
