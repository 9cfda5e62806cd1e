"""Fetches a segmented file with python-ndn, as its users do, and writes it.

With `--window 1`, the default, by its own `segment_fetcher`: one Interest at a time. With more,
that many are under way at once; the library has nothing of the kind, so it is written out here.

Prints one JSON document. Exit status 1 where the file did not come, with the reason.
"""

import argparse
import asyncio
import hashlib
import json
import sys
import time

from ndn.app import NDNApp
from ndn.app_support.segment_fetcher import segment_fetcher
from ndn.encoding import Component, Name
from ndn.security import KeychainDigest
from ndn.transport.udp_face import UdpFace
from ndn.types import (
    InterestCanceled, InterestNack, InterestTimeout, NetworkError, ValidationFailure,
)

TRIES_MAX = 5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("address", help="IP address of the forwarder")
    parser.add_argument("port", type=int)
    parser.add_argument("name", help="name of the file, without segment")
    parser.add_argument("out", help="where to write it")
    parser.add_argument("--window", type=int, default=1, help="Interests under way at once")
    parser.add_argument("--lifetime-ms", type=int, default=4000)
    parser.add_argument("--stale", action="store_true", help="without MustBeFresh")
    return parser.parse_args()


async def one_by_one(app, chosen):
    segments = segment_fetcher(app, chosen.name, timeout=chosen.lifetime_ms,
                               retry_times=TRIES_MAX, must_be_fresh=not chosen.stale)
    async for content in segments:
        yield content


async def windowed(app, chosen):
    async def fetch(name, can_be_prefix=False):
        for left in reversed(range(TRIES_MAX)):
            try:
                return await app.express_interest(
                    name, can_be_prefix=can_be_prefix, must_be_fresh=not chosen.stale,
                    lifetime=chosen.lifetime_ms)
            except (InterestTimeout, InterestNack):
                if left == 0:
                    raise
                await asyncio.sleep(0.01)

    # The first answer tells the full name, with a version if there is one.
    name, _, content = await fetch(chosen.name, can_be_prefix=True)
    if Component.get_type(name[-1]) != Component.TYPE_SEGMENT:
        yield content
        return
    file = [bytes(component) for component in name[:-1]]
    pending, next_to_ask, next_to_yield, final = {}, 0, 0, None
    try:
        while final is None or next_to_yield <= final:
            while len(pending) < chosen.window and (final is None or next_to_ask <= final):
                segment = file + [Component.from_segment(next_to_ask)]
                pending[next_to_ask] = asyncio.create_task(fetch(segment))
                next_to_ask += 1
            _, meta, content = await pending.pop(next_to_yield)
            if meta.final_block_id is not None:
                final = Component.to_number(meta.final_block_id)
            next_to_yield += 1
            yield content
    finally:
        for task in pending.values():
            task.cancel()


async def fetch_file(app, chosen):
    digest, received, segments = hashlib.sha256(), 0, 0
    began = time.monotonic()
    with open(chosen.out, "wb") as file:
        async for content in (one_by_one if chosen.window == 1 else windowed)(app, chosen):
            file.write(content or b"")
            digest.update(content or b"")
            received += len(content or b"")
            segments += 1
    print(json.dumps({
        "name": Name.to_str(Name.normalize(chosen.name)),
        "bytes": received,
        "segments": segments,
        "seconds": round(time.monotonic() - began, 3),
        "sha256": digest.hexdigest(),
    }), flush=True)
    app.shutdown()


def main():
    chosen = arguments()
    app = NDNApp(face=UdpFace(chosen.address, chosen.port), keychain=KeychainDigest())
    try:
        app.run_forever(after_start=fetch_file(app, chosen))
    except InterestNack as nack:
        sys.exit(f"fetch.py: an Interest was refused, reason {nack.reason}")
    except InterestTimeout:
        sys.exit("fetch.py: an Interest was not answered in time")
    except ValidationFailure as failure:
        sys.exit(f"fetch.py: the digest of {Name.to_str(failure.name)} is wrong")
    except (InterestCanceled, NetworkError):
        sys.exit("fetch.py: the face was closed: no process listens at that port")


if __name__ == "__main__":
    main()
