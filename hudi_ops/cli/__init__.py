"""Run `hudi-ops`: one module per command, below it the options and the output that commands share.

Nothing imports it. Read first: main.py.
"""
