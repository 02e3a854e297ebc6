"""Run table services and writes: one package each, on the shared skeleton in `base`.

Imported by `datasource`, `table` and everything above. Read first: base/service.py.
"""
