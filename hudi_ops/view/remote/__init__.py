"""Ask a timeline server for the view of a table, and check what it answers (RFC-03).

Read first: served.py. The server is `hudi_ops.server`, which uses the wire form of this package.
"""
