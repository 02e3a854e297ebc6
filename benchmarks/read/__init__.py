"""Reads of a table after upserts, beside other readers."""
