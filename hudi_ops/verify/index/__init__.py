"""Check the metadata table and the indexes. Read first: index_subject.py."""
