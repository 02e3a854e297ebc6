"""Small files of a table on disk, measured slowly."""

from __future__ import annotations

from tests.unit.health.slow_slices import SlowSlice, slow_slices

MB = 1 << 20
TARGET_BYTES, SMALL_BYTES, GROUP_BYTES = 120 * MB, 100 * MB, 2048 * MB


def slow_small_files(path: str) -> dict[str, float | None]:
    """The measures of the check `small_files` by name."""
    slices = slow_slices(path)
    packs: list[list[SlowSlice]] = []
    for one in slices:
        if one.size_bytes >= SMALL_BYTES:
            continue
        used = sum(other.size_bytes for other in packs[-1]) if packs else 0
        if packs and packs[-1][0].partition_path == one.partition_path and used + one.size_bytes <= GROUP_BYTES:
            packs[-1].append(one)
        else:
            packs.append([one])
    small = 0
    for members in packs:
        outputs = max(1, -(-sum(one.size_bytes for one in members) // TARGET_BYTES))
        if outputs < len(members):
            small += sum(one.base_bytes is not None and one.base_bytes < TARGET_BYTES / 3 for one in members)
    files = sum(one.base_bytes is not None for one in slices)
    return {"share": small / files if files else None}
