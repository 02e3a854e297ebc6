"""Keep views of tables in private files, or in files that processes share (RFC-03)."""
