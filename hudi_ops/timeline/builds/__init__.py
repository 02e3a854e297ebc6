"""Files and log entries of index builds: plan and result bytes, checkpoints, announcements.

`commit` and `services` may import it. Read `checkpoint.py` first.
"""
