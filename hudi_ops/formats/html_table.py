"""Render names and values as a small HTML table, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any


def html_table(title: str, facts: Mapping[str, Any]) -> str:
    """Return a table of names and values with a title; empty values are left out."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(_text(value))}</td></tr>"
        for name, value in facts.items()
        if value not in (None, "", (), [], {})
    )
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def _text(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
