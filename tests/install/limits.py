"""Limits of an installation."""

from __future__ import annotations

from tests.install.environments import Installed

CORE_MB = 285
"""Limit of the core without bytecode, in MB of 1,000,000 bytes: pyarrow takes 171 of it, numpy 57; docs/install.md has the rest."""

CORE_BYTECODE_MB = 40
"""Limit of the bytecode that pip writes beside the core."""

IMPORT_S = 0.4


def broken_limits(made: Installed) -> list[str]:
    """Return the limits that an environment exceeds."""
    name, net_mb = made.environment.name, made.size_mb - made.bytecode_mb
    broken = []
    if not made.environment.extras and net_mb >= CORE_MB:
        broken.append(f"{name}: {net_mb:.0f} MB, the limit is {CORE_MB}")
    if not made.environment.extras and made.bytecode_mb >= CORE_BYTECODE_MB:
        broken.append(f"{name}: {made.bytecode_mb:.0f} MB of bytecode, the limit is {CORE_BYTECODE_MB}")
    if made.import_s >= IMPORT_S:
        broken.append(f"{name}: import hudi_ops takes {made.import_s:.2f} s, the limit is {IMPORT_S}")
    return broken
