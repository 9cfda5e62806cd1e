package paceline;

/**
 * When a run begins, is measured and ends, by {@link Clock}.
 *
 * @param begin senders begin
 * @param from warm-up is over, and what happens from here on counts
 * @param until the measured time ends
 * @param stop senders stop
 * @param end members report: until then messages may arrive
 */
record Window(long begin, long from, long until, long stop, long end) {
    /** Parses the words of the order {@code run}, this word first. */
    static Window read(String[] words) {
        return new Window(
                Long.parseLong(words[1]),
                Long.parseLong(words[2]),
                Long.parseLong(words[3]),
                Long.parseLong(words[4]),
                Long.parseLong(words[5]));
    }

    boolean contains(long at) {
        return at >= from && at < until;
    }
}
