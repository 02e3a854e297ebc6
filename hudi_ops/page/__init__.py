"""Show the tables of the registry in Airflow, and preview, run and cancel services.

An ASGI application without Airflow: the plugin `plugins/hudi_ops_page.py` mounts it, and says who may do what (`rights.py`).
Pages read the registry alone. A child process (`child.py`) reads and changes tables, so that no request is slow
in Airflow's API server. Read `app.py` first.

Imported by the plugin alone. FastAPI and Jinja come with the extra `page`; beside this package only
`plugins/hudi_ops_security.py` imports FastAPI.
"""
