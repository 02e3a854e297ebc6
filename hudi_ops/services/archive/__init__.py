"""Archive: move old instants from the timeline into the history (docs/protocol §22).

Read `run.py` first.
"""
