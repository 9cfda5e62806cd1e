package paceline;

/**
 * When a run begins, is measured and ends, by {@link Clock}.
 *
 * @param begin senders begin
 * @param from warm-up is over, and messages delivered from here on count
 * @param until senders and the measurement end
 */
record Window(long begin, long from, long until) {
    boolean contains(long at) {
        return at >= from && at < until;
    }
}
