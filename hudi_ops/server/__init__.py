"""Serve file-system views of tables to many machines (RFC-03): `hudi-ops timeline-server`.

Imported by `cli` alone. Read first: app.py, then table.py. Only this package imports Starlette and uvicorn.
"""
