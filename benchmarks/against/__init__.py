"""Benchmarks of hudi_ops beside another commit of itself."""
