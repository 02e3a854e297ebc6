"""Chain of a source's ledger: a base, and links with the files that were taken later.

If each commit stored the whole ledger, the bytes would grow with the square of the number of commits. So a commit stores a link:
its own files, merged with those of the last links unless these are much longer. Each file is then stored only a few times, and a
chain has few links. A ledger that builds upon no other is a base.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from hudi_ops.errors import Corrupt, NotFound
from hudi_ops.formats.json_text import load_json
from hudi_ops.formats.stored_forms import FORM, LEDGER, is_known_form, refuse_newer
from hudi_ops.storage.protocol import Storage

FOLDER = ".hoodie/.ingest"
LONG_LINK_FILES = 4096
"""Number of files from which a link is not merged into later links any more."""
LINKS_MAX = 64
"""Most links of a chain; the next commit stores a base."""
_NEXT_STEP = "restore it from a copy of the table; without it files would be taken twice"

Version = tuple[int, int]
"""Size in bytes and change time in ms of a source file."""


@dataclass(frozen=True)
class Link:
    """Files that one ledger file adds, and the ledgers that it builds upon.

    `retaken` holds the earlier versions of files that were taken again, oldest first. `upon` holds the instants of the links
    below, oldest first; empty for a base.
    """

    instant: str
    taken: Mapping[str, Version]
    retaken: Mapping[str, tuple[Version, ...]] = field(default_factory=dict)
    upon: tuple[str, ...] = ()


def ledger_folder(instant: str) -> str:
    """Return the folder of the ledgers that an instant wrote."""
    return f"{FOLDER}/{instant}"


def ledger_path(instant: str, source_id: str) -> str:
    """Return the path of one ledger."""
    return f"{ledger_folder(instant)}/{source_id}.json"


def writer_of_ledger(path: str) -> str:
    """Return the instant that wrote a ledger."""
    return path.removeprefix(f"{FOLDER}/").partition("/")[0]


def built_upon(storage: Storage, path: str) -> tuple[str, ...]:
    """Return the paths of the ledgers that a ledger builds upon, oldest first; a base has none.

    They are needed as long as the ledger may be read.

    Raises:
        Corrupt: the ledger cannot be read, or is missing.
    """
    source_id = _source_of(path)
    return tuple(ledger_path(instant, source_id) for instant in _read(storage, path).upon)


def read_chain(storage: Storage, path: str) -> tuple[Link, ...]:
    """Read a ledger with all ledgers that it builds upon, the base first.

    Raises:
        NotFound: there is no such ledger.
        Corrupt: one of these ledgers cannot be read, or one that the ledger builds upon is missing.
    """
    source_id, last = _source_of(path), _read(storage, path)
    links: list[Link] = []
    for instant in last.upon:
        below = ledger_path(instant, source_id)
        try:
            link = _read(storage, below)
        except NotFound as error:
            raise Corrupt(
                f"{below} is missing: the source ledger {path} builds upon it",
                expected="all ledgers that this one names",
                found="no such file",
                next_step=_NEXT_STEP,
                path=below,
            ) from error
        if link.upon != last.upon[: len(links)]:
            raise Corrupt(
                f"{below} builds upon other ledgers than {path} says",
                expected=", ".join(last.upon[: len(links)]) or "none",
                found=", ".join(link.upon) or "none",
                next_step=_NEXT_STEP,
                path=below,
            )
        links.append(link)
    return (*links, last)


def lengthened(links: Sequence[Link], instant: str, taken: Mapping[str, Version], retaken: Mapping[str, Any]) -> Link:
    """Return the link that a commit appends to a chain.

    It absorbs the last links as long as each holds at most twice as many files as the link so far. This keeps chains short, and
    each file is stored only a few times.
    """
    kept, files = (0, 0) if len(links) >= LINKS_MAX else (len(links), len(taken))
    while kept and len(links[kept - 1].taken) <= min(2 * files, LONG_LINK_FILES - 1):
        kept -= 1
        files += len(links[kept].taken)
    taken_in = links[kept:]
    return Link(
        instant,
        dict(chain(*(link.taken.items() for link in taken_in), taken.items())),
        dict(chain(*(link.retaken.items() for link in taken_in), retaken.items())),
        tuple(link.instant for link in links[:kept]),
    )


def link_bytes(link: Link, source_id: str, uri: str) -> bytes:
    """Encode a link as JSON, sorted by path."""
    files = {path: list(version) for path, version in sorted(link.taken.items())}
    retaken = {path: [list(one) for one in versions] for path, versions in sorted(link.retaken.items())}
    record = {"source": source_id, "uri": uri, "upon": list(link.upon), "files": files, "retaken": retaken}
    return json.dumps({FORM: LEDGER, **record}).encode()


def _read(storage: Storage, path: str) -> Link:
    return _decoded(storage.get(path), path)


def _decoded(data: bytes, path: str) -> Link:
    record = load_json(data, path, "a source ledger", _NEXT_STEP)
    try:
        if not is_known_form(record, LEDGER):
            refuse_newer(data, LEDGER, path)
            raise ValueError(f"{FORM} {record[FORM]}")
        upon = tuple(record["upon"])
        taken = {name: (size, changed) for name, (size, changed) in record["files"].items()}
        retaken = {
            name: tuple((size, changed) for size, changed in versions) for name, versions in record["retaken"].items()
        }
        if not all(isinstance(instant, str) and instant.isdecimal() for instant in upon):
            raise TypeError("instants that are no digits")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corrupt(
            f"{path} is not a source ledger",
            expected="JSON with upon, files and retaken",
            found=f"{type(error).__name__}: {error}",
            next_step=_NEXT_STEP,
        ) from error
    return Link(path.rpartition("/")[0].rpartition("/")[2], taken, retaken, upon)


def _source_of(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".json")
