"""Hold the Avro schemas of the files on the timeline.

Imported by `formats` and everything above. Read first: timeline_schemas.py.
"""
