"""Clustering of a table: by our engines, by Apache Hudi, and beside delta-rs and a pyarrow floor."""
