"""Two commits of the product work on one table in turn: what one stores, the other reads, changes and services."""
