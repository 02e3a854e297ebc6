"""What the file-system view saves: plans, writes and cleans of a table of many file groups, beside an older commit."""
