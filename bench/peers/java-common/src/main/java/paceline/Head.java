package paceline;

import java.nio.ByteBuffer;

/**
 * The first bytes of a message.
 *
 * @param origin the member that sent it
 * @param thread the thread there
 * @param number how many messages this thread had sent before
 * @param sentAt when it called send, by {@link Clock}
 */
record Head(int origin, int thread, long number, long sentAt) {
    static final int BYTES = 24;

    static Head read(byte[] payload, int offset) {
        ByteBuffer buffer = ByteBuffer.wrap(payload, offset, BYTES);
        return new Head(buffer.getInt(), buffer.getInt(), buffer.getLong(), buffer.getLong());
    }

    /** A message of this size: the head, and zeros. */
    byte[] message(int bytes) {
        byte[] payload = new byte[bytes];
        ByteBuffer.wrap(payload).putInt(origin).putInt(thread).putLong(number).putLong(sentAt);
        return payload;
    }
}
