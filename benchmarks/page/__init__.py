"""What the page costs in Airflow's API server: lists, a large table, fresh looks, and heartbeats of tasks beside previews."""
