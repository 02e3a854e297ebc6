"""The metadata table: what it costs a write, what building it takes beside Apache Hudi, what a reader gains by it."""
