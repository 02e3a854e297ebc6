"""Do what `verify` advises, where the owner of an instant or a file has ended.

`table` and `cli` may import it; it may import every other service. Read `repair.py` first.
"""
