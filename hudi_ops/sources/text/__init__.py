"""Read CSV and JSON lines, and say which line and column a mistake is in.

Imported by `sources`. Read first: text_source.py.
"""
