"""Write rows into the child groups of a pending resize as well.

Imported by `services.write`. Read first: writer.py.
"""
