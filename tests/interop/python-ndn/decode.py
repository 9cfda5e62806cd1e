"""Reads packets in hex from standard input, one a line, and prints how python-ndn understands each.

For every line one JSON document, on a line: what its own receive path would make of the datagram.
`kind` is "interest", "data" or "nack", or "dropped" with the reason why it would not be delivered.
`accepted` is the verdict of the check that its applications have by default; with the option
`--ed25519-public-key`, `ed25519_is_right` is that of the signature.
"""

import argparse
import asyncio
import json
import struct
import sys

from Cryptodome.Signature import eddsa
from ndn.encoding import (
    DecodeError, LpTypeNumber, Name, TypeNumber, parse_data, parse_interest, parse_lp_packet_v2,
    parse_tl_num,
)
from ndn.security import params_sha256_checker, sha256_digest_checker
from ndn.security.validator.known_key_validator import verify_ed25519


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--ed25519-public-key", type=bytes.fromhex, metavar="HEX",
                        help="32 bytes, to verify signatures of Data by")
    return parser.parse_args()


async def understood(packet, key):
    found = {}
    kind, _ = parse_tl_num(packet)
    if kind == LpTypeNumber.LP_PACKET:
        link = parse_lp_packet_v2(packet)
        found["congestion_mark"] = link.congestion_mark
        found["pit_token"] = None if link.pit_token is None else bytes(link.pit_token).hex()
        # Without a reason it is taken for the Interest inside.
        if link.nack is not None and link.nack.nack_reason is not None:
            found["nack_reason"] = link.nack.nack_reason
        packet = link.fragment
        kind, _ = parse_tl_num(packet)
    if kind == TypeNumber.INTEREST:
        return found | await interest(packet, "nack" if "nack_reason" in found else "interest")
    if kind == TypeNumber.DATA:
        return found | await data(packet, key)
    return found | {"kind": "dropped", "reason": f"type {kind}"}


async def interest(packet, kind):
    name, fields, parameters, signature = parse_interest(packet)
    found = {
        "kind": kind,
        "name": Name.to_str(name),
        "can_be_prefix": fields.can_be_prefix,
        "must_be_fresh": fields.must_be_fresh,
        "nonce": fields.nonce,
        "lifetime_ms": fields.lifetime,
        "hop_limit": fields.hop_limit,
    }
    if parameters is not None:
        found["parameters"] = bytes(parameters).hex()
        found["accepted"] = await params_sha256_checker(name, signature)
    return found


async def data(packet, key):
    name, meta, content, signature = parse_data(packet)
    information = signature.signature_info
    locator = information.key_locator if information else None
    found = {
        "kind": "data",
        "name": Name.to_str(name),
        "content": None if content is None else bytes(content).hex(),
        "content_type": meta.content_type,
        "freshness_ms": meta.freshness_period,
        "final_block": None if meta.final_block_id is None else bytes(meta.final_block_id).hex(),
        "signature_type": information.signature_type if information else None,
        "key_name": Name.to_str(locator.name) if locator and locator.name else None,
        "accepted": await sha256_digest_checker(name, signature),
    }
    if key is not None:
        found["ed25519_is_right"] = verify_ed25519(key, signature)
    return found


async def main():
    public = arguments().ed25519_public_key
    key = None if public is None else eddsa.import_public_key(public)
    for line in sys.stdin:
        try:
            found = await understood(bytes.fromhex(line), key)
        except (DecodeError, IndexError, TypeError, ValueError, struct.error) as error:
            found = {"kind": "dropped", "reason": f"{type(error).__name__}: {error}"}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
