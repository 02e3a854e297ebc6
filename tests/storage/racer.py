"""A process of its own for test_races: claims, reads, writes or prunes as its first argument says, until told to stop.

Run by path, not imported: real processes share nothing but the disk.
"""

import hashlib
import os
import sys

from hudi_ops.errors import AlreadyExists, NotFound
from hudi_ops.storage.local import LocalStorage

SIZE = 500_000


def body_of(seed: str, size: int) -> bytes:
    """A body that shows when a part of it is missing."""
    payload = (hashlib.sha256(seed.encode()).digest() * (size // 32 + 1))[:size]
    return hashlib.sha256(payload).digest() + payload


def is_whole(body: bytes) -> bool:
    return len(body) > 32 and hashlib.sha256(body[32:]).digest() == body[:32]


def claim_rounds(storage: LocalStorage) -> None:
    """One put_if_absent for each line read; answers `won` or `lost`."""
    body = body_of(str(os.getpid()), SIZE)
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            storage.put_if_absent(line.strip(), body)
            print("won", flush=True)
        except AlreadyExists:
            print("lost", flush=True)


def read_always(storage: LocalStorage, rounds: int) -> None:
    """Waits for each round's name and reads it the moment it appears; answers how many were torn."""
    print("ready", flush=True)
    torn = 0
    for number in range(rounds):
        while True:
            try:
                torn += not is_whole(storage.get(f"race/{number // 10}/{number}"))
                break
            except NotFound:
                continue
    torn += any(found.size_bytes != SIZE + 32 for found in storage.list("race"))
    print(torn, flush=True)


def write_always(storage: LocalStorage) -> None:
    """Puts and replaces until killed; announces each finished name."""
    number = 0
    while True:
        storage.put_if_absent(f"data/new={os.getpid()}/{number}", body_of(f"{number}", 3_000_000))
        storage.put("data/replaced", body_of(f"{os.getpid()} {number}", 3_000_000))
        print(number, flush=True)
        number += 1


def prune_always(storage: LocalStorage, name: str, rounds: int) -> None:
    """Puts and deletes the only file of a deep folder, again and again; answers how often its own file was missing."""
    print("ready", flush=True)
    sys.stdin.readline()
    missing = 0
    for number in range(rounds):
        path = f"deep/a=1/b=2/{name}-{number}"
        (storage.put if number % 2 else storage.put_if_absent)(path, b"x")
        missing += storage.head(path) is None or storage.get(path) != b"x"
        storage.delete(path)
    print(missing, flush=True)


if __name__ == "__main__":
    role, root, *rest = sys.argv[1:]
    at = LocalStorage(root)
    if role == "claim":
        claim_rounds(at)
    elif role == "read":
        read_always(at, int(rest[0]))
    elif role == "write":
        write_always(at)
    else:
        prune_always(at, rest[0], int(rest[1]))
