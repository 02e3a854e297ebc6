"""What a commit costs as a table's timeline grows, without any service."""
