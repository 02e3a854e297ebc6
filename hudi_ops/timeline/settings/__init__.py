"""Compare hoodie.properties with the commit log.

Imported by `timeline` and everything above. Read first: properties_file.py.
"""
