"""Simulate crashes, interleavings and lost locks.

Imported by tests and benchmarks. Read first: simulation.py.
"""
