"""Prints packets encoded by python-ndn, one JSON document: names of vectors and their bytes in hex.

Nothing in them is random: nonces, times and keys are fixed, so every run prints the same bytes.
"""

import importlib.metadata
import json

from Cryptodome.PublicKey import ECC
from ndn.app_support import nfd_mgmt
from ndn.encoding import (
    Component, InterestParam, MetaInfo, Name, NackReason, make_data, make_interest,
    make_network_nack,
)
from ndn.encoding.ndnlp_v2 import LpPacket, LpPacketValue
from ndn.security import DigestSha256Signer, NullSigner
from ndn.security.signer import Ed25519Signer, sha256_digest_signer

NAME = "/mircc/file/seg=7"
NONCE = 0x01020304
TIME_MS = 1_700_000_000_000
NONCE_64 = 0x0102030405060708
ED25519_SEED = bytes(range(32))
ED25519_KEY_NAME = "/mircc/KEY/%01"
# A private key in DER is this and the seed.
ED25519_DER_PREFIX = bytes.fromhex("302e020100300506032b657004220420")


def interest(name=NAME, nonce=NONCE, **fields):
    return make_interest(name, InterestParam(nonce=nonce, **fields))


def data(name=NAME, content=b"x" * 16, signer=None, **meta):
    return make_data(name, MetaInfo(**meta), content, signer or DigestSha256Signer())


def link(**fields):
    packet = LpPacket()
    packet.lp_packet = LpPacketValue()
    for field, value in fields.items():
        setattr(packet.lp_packet, field, value)
    return packet.encode()


def registration(api):
    """The Interest that registers a prefix: `ndn.app` (1) signs in the name, `ndn.appv2` (2) in
    the parameters."""
    if api == 1:
        return interest(nfd_mgmt.make_command("rib", "register", name="/mircc"), lifetime=1000)
    name = nfd_mgmt.make_command_v2("rib", "register", name="/mircc")
    fields = InterestParam(nonce=NONCE, lifetime=1000)
    return make_interest(name, fields, b"", DigestSha256Signer(for_interest=True))


def response(code, text):
    """What answers a registration, as the content of a Data packet."""
    answer = nfd_mgmt.ControlResponse()
    answer.status_code, answer.status_text = code, text
    answer.body = nfd_mgmt.ControlParametersValue()
    if code == 200:
        answer.body.name = "/mircc"
        answer.body.face_id, answer.body.origin, answer.body.cost = 256, 0, 0
        answer.body.flags = 1
    value = answer.encode()
    return Component.from_bytes(value, typ=0x65)


def vectors():
    ed25519 = Ed25519Signer(ED25519_KEY_NAME, ED25519_DER_PREFIX + ED25519_SEED)
    return {
        "name": Name.to_bytes("/mircc/a%00%FF/32=metadata/v=1700000000000/seg=256"),
        "name-empty": Name.to_bytes("/"),
        "interest": interest(),
        "interest-discovery": interest(
            "/mircc/file", can_be_prefix=True, must_be_fresh=True, lifetime=1000, hop_limit=32),
        "interest-no-lifetime": interest(lifetime=None),
        "interest-forwarding-hint": interest(forwarding_hint=["/a", "/b/c"]),
        "interest-implicit-digest": interest(f"/mircc/sha256digest={'ab' * 32}"),
        "interest-register-in-name": registration(1),
        "interest-register-in-parameters": registration(2),
        "data": data(freshness_period=1000),
        "data-final-block": data(
            freshness_period=1000, final_block_id=Component.from_segment(70_000)),
        "data-empty": data(content=b""),
        "data-no-content": data(content=None),
        "data-1000-bytes": data("/mircc/file/seg=65536", bytes(i % 251 for i in range(1000))),
        "data-ed25519": data(freshness_period=1000, signer=ed25519),
        "data-null-signature": data(signer=NullSigner()),
        "content-registered": response(200, "OK"),
        "content-not-registered": response(403, "authorization rejected"),
        "nack-congestion": make_network_nack(interest(), NackReason.CONGESTION),
        "nack-duplicate": make_network_nack(interest(), NackReason.DUPLICATE),
        "nack-no-route": make_network_nack(interest(), NackReason.NO_ROUTE),
        "link-congestion-mark": link(congestion_mark=1, fragment=data(freshness_period=1000)),
        "link-pit-token": link(pit_token=b"\1\2\3\4", fragment=interest()),
    }


def main():
    for module in (nfd_mgmt, sha256_digest_signer):
        module.timestamp = lambda: TIME_MS
        module.gen_nonce_64 = lambda: NONCE_64
    made = {name: bytes(packet).hex() for name, packet in vectors().items()}
    public = ECC.import_key(ED25519_DER_PREFIX + ED25519_SEED).public_key()
    print(json.dumps({
        "version": importlib.metadata.version("python-ndn"),
        "ed25519_public_key": public.export_key(format="raw").hex(),
        "vectors": made,
    }, indent=1))


if __name__ == "__main__":
    main()
