"""Blocks, trailer and file info of HFiles by themselves: what comes back, and each way in which one can be broken."""

from __future__ import annotations

import gzip
import struct

import pytest

from hudi_ops.errors import Corrupt, HudiOpsError
from hudi_ops.formats.hfile.frame import DATA, Codec, decode_hfile_block, encode_hfile_block
from hudi_ops.formats.hfile.trailer import Trailer, decode_info, decode_trailer, encode_info
from tests.unit.formats.hand_made_hfile import field_of, varint

PATH = "f-0.hfile"
PAYLOAD = b"payload " * 20
TRAILER = Trailer(10**9, 5 * 10**8, 7, 2**40, 3, 2**35, 0, 2**33)
END = 2 * 10**9


def block(packed: bytes, unpacked: int = len(PAYLOAD), more: bytes = b"") -> memoryview:
    head = struct.pack(">8siiqBii", DATA, len(packed) + len(more), unpacked, -1, 0, 16384, 33 + len(packed))
    return memoryview(head + packed + more)


def refusal(data: memoryview, codec: Codec = Codec.GZ) -> Corrupt:
    with pytest.raises(Corrupt, match=r"f-0\.hfile is damaged at offset 77") as caught:
        decode_hfile_block(data, 77, DATA, codec, PATH)
    return caught.value


def test_a_block_comes_back():
    data = encode_hfile_block(DATA, PAYLOAD, 5, 1)
    assert decode_hfile_block(memoryview(data + b"behind"), 0, DATA, Codec.GZ, PATH) == (PAYLOAD, len(data))
    plain = block(PAYLOAD, more=bytes(4))
    assert decode_hfile_block(plain, 0, DATA, Codec.NONE, PATH) == (PAYLOAD, len(plain))


def test_gzip_that_is_cut_or_followed_by_more_is_refused():
    packed = gzip.compress(PAYLOAD)
    for broken in (packed[:-1], packed[:-8], packed[:-9], packed + b"\x00", packed + packed, packed[1:], b""):
        assert refusal(block(broken)).expected


def test_payloads_of_another_size_are_refused():
    packed = gzip.compress(PAYLOAD)
    for size in (0, len(PAYLOAD) - 1, len(PAYLOAD) + 1):
        refusal(block(packed, size))
        refusal(block(PAYLOAD, size), Codec.NONE)
    for size in (-1, 1032 * len(packed) + 1, 2**31 - 1):
        assert "at most the bytes that it can expand to" in refusal(block(packed, size)).expected


def test_a_trailer_comes_back():
    data = TRAILER.encode()
    assert len(data) == 4096
    assert decode_trailer(memoryview(data), END, PATH) == TRAILER


def test_file_info_comes_back_sorted():
    info = {"z": b"", "a": b"\xff" * 300, "\u00e9": b"1", "": b"2"}
    payload = encode_info(info)
    assert list(decode_info(payload, 0, PATH).items()) == sorted(info.items())


def message(body: bytes) -> bytes:
    return b"PBUF" + varint(len(body)) + body


PAIR = field_of(1, b"key") + field_of(2, b"value")


def test_what_is_not_known_in_file_info_is_passed_over():
    more = field_of(3, b"later") + field_of(4, 9) + varint(5 << 3 | 1) + bytes(8) + varint(6 << 3 | 5) + bytes(4)
    body = field_of(2, b"later") + field_of(1, 7) + field_of(1, PAIR + more) + more
    assert decode_info(message(body), 0, PATH) == {"key": b"value"}


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        (b"", "begins with b''"),
        (b"PBUG" + message(field_of(1, PAIR))[4:], "PBUG"),
        (b"PBUF", "does not end"),
        (b"PBUF" + b"\x80" * 11, "does not end"),
        (message(field_of(1, PAIR))[:-1], "a message of"),
        (message(field_of(1, PAIR)[:-1]), "a field of"),
        (message(field_of(1, PAIR[:-1])), "a field of"),
        (message(varint(5 << 3 | 1) + bytes(7)), "a field of 8 bytes"),
        (message(b"\x0b"), "wire type 3"),
        (message(field_of(1, field_of(1, b"\xff"))), "utf-8"),
    ],
)
def test_broken_file_info_is_refused(payload: bytes, found: str):
    with pytest.raises(Corrupt, match=PATH) as caught:
        decode_info(payload, 5, PATH)
    assert found in caught.value.found
    assert caught.value.details["offset"] == 5


def test_trailers_that_are_cut_or_too_long_are_refused():
    data = bytearray(TRAILER.encode())
    for length in (4096 - 8 - 4, 2**20):
        broken = data.copy()
        broken[8:11] = varint(length)[:3].ljust(3, b"\x00")
        with pytest.raises(HudiOpsError, match=PATH):
            decode_trailer(memoryview(bytes(broken)), END, PATH)
    for end in (10**9, 0):
        with pytest.raises(Corrupt, match=PATH):
            decode_trailer(memoryview(bytes(data)), end, PATH)
