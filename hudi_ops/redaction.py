"""Masking of credentials in everything that is shown: errors, logs, JSON, traces."""

from __future__ import annotations

import json
import logging
import re
from typing import Any
from urllib.parse import quote

MASK = "***"

_USER = r"://[^\s/@:'\"\[]+:"
# Only these schemes have ports: elsewhere `KEY:1234/SECRET@bucket` is no host with a port and a path.
CREDENTIALS = (
    rf"(?:(?<!zookeeper)(?<!hdfs)(?<!http)(?<!https){_USER}[^\s'\"]*@"
    rf"|{_USER}[^\s/'\"]*@"
    rf"|{_USER}(?!\d{{1,5}}[/,])[^\s'\"]*@)"
)
"""Regular expression for the user and the password of a URI, from `://` to the `@`. Forms use it as well."""

_USER_AND_PASSWORD = re.compile(CREDENTIALS)
_SHORTEST = 4
_LONG = 8
_known: set[str] = set()


def remember_secret(secret: str) -> None:
    """Mask a secret of this process in all texts of `redacted`, also as JSON and URLs write it.

    Args:
        secret: one of fewer than eight characters is masked as a whole word only, and one of fewer than four is ignored: they
            would mask common words, and parts of them.
    """
    if len(secret) >= _SHORTEST:
        _known.update((secret, json.dumps(secret)[1:-1], quote(secret, safe="")))


def has_credentials(uri: str) -> bool:
    """Return whether a URI holds a user and a password."""
    return _USER_AND_PASSWORD.search(uri) is not None


def redacted(text: str) -> str:
    """Mask passwords in URIs, and the secrets that this process knows.

    >>> redacted("no lock for 'zookeeper://me:secret@host:2181/locks'")
    "no lock for 'zookeeper://***@host:2181/locks'"
    """
    if "://" in text:
        text = _USER_AND_PASSWORD.sub(f"://{MASK}@", text)
    for secret in sorted(_known, key=len, reverse=True):
        if len(secret) >= _LONG:
            text = text.replace(secret, MASK)
        elif secret in text:
            text = re.sub(rf"(?<![\w-]){re.escape(secret)}(?![\w-])", MASK, text)
    return text


def redacted_values(value: Any) -> Any:
    """Redact every text in a value, also within lists, tuples and dicts."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict):
        return {redacted_values(key): redacted_values(one) for key, one in value.items()}
    if isinstance(value, list | tuple) and type(value) in {list, tuple}:
        return type(value)(redacted_values(one) for one in value)
    return value


class RedactingFilter(logging.Filter):
    """Filter for loggers of libraries that log their requests."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact a record; it is always kept."""
        record.msg, record.args = redacted(record.getMessage()), ()
        return True


class RedactingFormatter(logging.Formatter):
    """Formatter for the handlers of a process: messages and traces."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the record as one text, redacted."""
        return redacted(super().format(record))
