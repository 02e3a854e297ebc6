"""Keeping credentials out of everything that is shown: errors, logs, JSON, traces."""

from __future__ import annotations

import json
import logging
import re
from typing import Any
from urllib.parse import quote

MASK = "***"

# A user and a password before a host. A port and a path look alike: `host:2181/path@x` has a number in the password's place.
_USER_AND_PASSWORD = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*://)[^\s/@:'\"]+:(?!\d{1,5}[/,])[^\s'\"]*@")
_SHORTEST = 4
_known: set[str] = set()


def remember_secret(secret: str) -> None:
    """Have a secret of this process masked wherever `redacted` meets it, also as JSON and URLs write it.

    Args:
        secret: one of fewer than four characters is ignored: it would mask parts of common words.
    """
    if len(secret) >= _SHORTEST:
        _known.update((secret, json.dumps(secret)[1:-1], quote(secret, safe="")))


def has_credentials(uri: str) -> bool:
    """Whether a URI holds a user and a password."""
    return _USER_AND_PASSWORD.search(uri) is not None


def redacted(text: str) -> str:
    """The text without passwords in URIs, and without the secrets that this process knows.

    >>> redacted("no lock for 'zookeeper://me:secret@host:2181/locks'")
    "no lock for 'zookeeper://***@host:2181/locks'"
    """
    if "://" in text:
        text = _USER_AND_PASSWORD.sub(rf"\g<scheme>{MASK}@", text)
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def redacted_values(value: Any) -> Any:
    """A value with every text in it redacted; lists, tuples and dicts are gone through."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict):
        return {redacted_values(key): redacted_values(one) for key, one in value.items()}
    if isinstance(value, list | tuple) and type(value) in {list, tuple}:
        return type(value)(redacted_values(one) for one in value)
    return value


class RedactingFilter(logging.Filter):
    """For loggers of libraries that log what they send."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact a record; it is always kept."""
        record.msg, record.args = redacted(record.getMessage()), ()
        return True


class RedactingFormatter(logging.Formatter):
    """For the handlers of a process: messages and traces."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one text, redacted."""
        return redacted(super().format(record))
