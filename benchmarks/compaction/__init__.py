"""Compaction of a million rows and three logs of 100,000: our two engines beside Apache Hudi, delta-rs and a pyarrow floor."""
