package paceline;

/**
 * What every member is told by the first arguments of its program.
 *
 * @param number its own, from 0
 * @param members how many there are
 * @param messageBytes bytes of a message
 * @param threads threads that send; 0 for a member that does not send
 * @param threadsOfSender threads of any sender
 * @param firstAfterNanos from the beginning to the first message of a thread
 * @param intervalNanos between two messages of a thread; 0 for as fast as they are accepted
 */
record Settings(
        int number,
        int members,
        int messageBytes,
        int threads,
        int threadsOfSender,
        long firstAfterNanos,
        long intervalNanos) {
    /** How many arguments it takes. */
    static final int ARGUMENTS = 7;

    static Settings read(String[] arguments) {
        return new Settings(
                Integer.parseInt(arguments[0]),
                Integer.parseInt(arguments[1]),
                Integer.parseInt(arguments[2]),
                Integer.parseInt(arguments[3]),
                Integer.parseInt(arguments[4]),
                Long.parseLong(arguments[5]),
                Long.parseLong(arguments[6]));
    }
}
