package paceline;

import java.time.Instant;
import java.util.concurrent.locks.LockSupport;

/** Nanoseconds since 1970. Processes of one machine agree on them, and they never go back. */
final class Clock {
    private static final int ATTEMPTS = 100;
    private static final long OFFSET = offset();

    private Clock() {}

    static long now() {
        return System.nanoTime() + OFFSET;
    }

    static void sleepUntil(long at) {
        for (long left = at - now(); left > 0; left = at - now()) {
            LockSupport.parkNanos(left);
        }
    }

    /** The wall clock over the monotonic one. The fastest attempt counts: others were interrupted. */
    private static long offset() {
        long fastest = Long.MAX_VALUE;
        long offset = 0;
        for (int attempt = 0; attempt < ATTEMPTS; attempt += 1) {
            long before = System.nanoTime();
            Instant wall = Instant.now();
            long took = System.nanoTime() - before;
            if (took < fastest) {
                fastest = took;
                offset = wall.getEpochSecond() * 1_000_000_000L + wall.getNano() - before - took / 2;
            }
        }
        return offset;
    }
}
