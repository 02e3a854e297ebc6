"""What the comparisons share: processes measured from outside, their commands, rows, goals, tables of the report."""
