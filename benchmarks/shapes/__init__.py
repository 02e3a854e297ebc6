"""Benchmark of unusual shapes: wide tables, and many small files."""
