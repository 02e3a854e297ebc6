"""Serve scripts and styles of the page: a fixed list of files.

The address of each has a digest of its content, so that browsers keep it until it changes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import HTTPException
from starlette.responses import Response

_FOLDER = Path(__file__).parent / "assets"

TYPES = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "theme.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "htmx.LICENSE.txt": "text/plain; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "icon-dark.svg": "image/svg+xml",
}
"""Files that may be asked for, and their types."""

_YEAR_S = 365 * 86_400


@dataclass(frozen=True)
class Asset:
    """A file and the digest of its content."""

    content: bytes
    digest: str


@cache
def asset(name: str) -> Asset:
    """Return a file of the list; each is read once.

    Raises:
        HTTPException: 404 for another name.
    """
    if name not in TYPES:
        raise HTTPException(404, f"There is no file {name!r}.")
    content = (_FOLDER / name).read_bytes()
    return Asset(content, hashlib.sha256(content).hexdigest()[:16])


def address(name: str) -> str:
    """Return the address of a file below the page's root; another content has another address."""
    return f"assets/{name}?v={asset(name).digest}"


def answer(name: str, version: str) -> Response:
    """Return the answer with a file.

    Browsers keep it for a year if they asked for this content, and shared caches never.

    Raises:
        HTTPException: 404 for a name that is not listed.
    """
    found = asset(name)
    kept = f"private, max-age={_YEAR_S}, immutable" if version == found.digest else "private, no-cache"
    return Response(found.content, headers={"content-type": TYPES[name], "cache-control": kept})
