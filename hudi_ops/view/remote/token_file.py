"""Read the token that a client shows to a server."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hudi_ops.errors import InvalidRequest
from hudi_ops.redaction import remember_secret

TOKEN_MIN_CHARS = 16
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_token(path: str) -> str:
    """Return the token in a file of this user; logs and errors hide it from then on.

    Raises:
        InvalidRequest: the file cannot be read, is open to other users, or holds no token.
    """
    facts = {"expected": "a file with the token, for this user alone", "next_step": f"chmod 600 {path}"}
    try:
        with Path(path).expanduser().open(encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & _OF_OTHERS:
                raise InvalidRequest(f"other users can read the token in {path}", **facts)
            found = file.read().strip()
    except (OSError, RuntimeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the token in {path} cannot be read: {error}", **facts) from error
    if len(found) < TOKEN_MIN_CHARS or not found.isascii() or not found.isprintable() or " " in found:
        raise InvalidRequest(
            f"{path} holds no token",
            expected=f"{TOKEN_MIN_CHARS} or more printable ASCII characters without blanks",
            next_step=f"openssl rand -hex 32 > {path}",
        )
    remember_secret(found)
    return found
