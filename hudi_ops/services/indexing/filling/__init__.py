"""Steps of an index build: reserve an instant, fill, announce, catch up, resume.

`services.indexing.service` calls them. Read `build.py` first.
"""
