"""Steps of an index build: reserve an instant, fill, announce, catch up.

`services.indexing.execute` calls them. Read `build.py` first.
"""
