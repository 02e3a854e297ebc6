"""Upsert of 100,000 rows into 1,000,000: our two engines beside Apache Hudi's own writer."""
