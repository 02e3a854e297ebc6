"""Finish what slots decided, roll back what they cancelled, and sweep leftovers.

Read first: `recover.py`, which each write calls first. Dead writes and cancelled plans go to `rollback.py`, plans without
data files to `abort.py`, builds of an index to `index_builds.py`; leases, markers and late files to `sweep.py`, staged files to
`staging.py`. All delete by `commit/owned/remove.py`. An executor that takes a plan over from a dead one first deletes the files of
earlier epochs (`commit/decide/takeover.py`).
"""
