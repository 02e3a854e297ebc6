"""Files of a table as Arrow columns, and the slices that readers see (RFC-03)."""
