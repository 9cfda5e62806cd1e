"""Serves a file with python-ndn, as its users do: registers a prefix and answers under it.

The file NAME is `PREFIX/BASENAME`; its segments are named `NAME/seg=N`, signed with their SHA-256
digest, and all of them tell the last one. An Interest for NAME itself gets the first segment.

Prints `READY` and the name on a line once the forwarder has confirmed the registration, and serves
until it is killed. Exit status 1 where the registration is refused or not answered.
"""

import argparse
import pathlib
import sys

from ndn import app as app_1, appv2 as app_2
from ndn.encoding import Component, MetaInfo, Name, make_data
from ndn.security import DigestSha256Signer, KeychainDigest
from ndn.transport.udp_face import UdpFace
from ndn.types import NetworkError

TRIES_MAX = 5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("address", help="IP address of the forwarder")
    parser.add_argument("port", type=int)
    parser.add_argument("prefix", help="what to register")
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--segment-bytes", type=int, default=1024)
    parser.add_argument("--freshness-ms", type=int, default=60_000)
    parser.add_argument("--api", type=int, choices=(1, 2), default=2,
                        help="1 registers by a command signed in its name and knows no PIT tokens; "
                             "2 by one signed in its parameters, and gives tokens back")
    return parser.parse_args()


def segments(name, content, chosen):
    size = chosen.segment_bytes
    last = max(0, (len(content) - 1) // size)
    meta = MetaInfo(freshness_period=chosen.freshness_ms,
                    final_block_id=Component.from_segment(last))
    signer = DigestSha256Signer()
    return [make_data(name + [Component.from_segment(number)], meta,
                      content[number * size:(number + 1) * size], signer)
            for number in range(last + 1)]


def segment_asked(name, asked):
    """The number of the segment that an Interest asks for, or None where it asks for none."""
    if not Name.is_prefix(name, asked):
        return None
    rest = asked[len(name):]
    if not rest:
        return 0
    if len(rest) == 1 and Component.get_type(rest[0]) == Component.TYPE_SEGMENT:
        return Component.to_number(rest[0])
    return None


def main():
    chosen = arguments()
    prefix = Name.from_str(chosen.prefix)
    name = prefix + [Component.from_str(Component.escape_str(chosen.file.name))]
    packets = segments(name, chosen.file.read_bytes(), chosen)
    face = UdpFace(chosen.address, chosen.port)
    status = 1

    def packet(asked):
        number = segment_asked(name, asked)
        return packets[number] if number is not None and number < len(packets) else None

    if chosen.api == 1:
        app = app_1.NDNApp(face=face, keychain=KeychainDigest())

        def answer(asked, _fields, _parameters):
            if (found := packet(asked)) is not None:
                app.put_raw_packet(found)

        app.set_interest_filter(prefix, answer)

        async def register():
            return await app.register(prefix, None)
    else:
        app = app_2.NDNApp(face=face)

        def answer(asked, _parameters, reply, _context):
            if (found := packet(asked)) is not None:
                reply(found)

        app.attach_handler(prefix, answer)

        async def register():
            return await app.register(prefix)

    async def start():
        nonlocal status
        for _ in range(TRIES_MAX):
            if await register():
                status = 0
                print("READY", Name.to_str(name), flush=True)
                return
        app.shutdown()

    try:
        app.run_forever(after_start=start())
    except NetworkError:
        sys.exit("produce.py: the face was closed: no process listens at that port")
    if status != 0:
        sys.exit("produce.py: the prefix was not registered")


if __name__ == "__main__":
    main()
