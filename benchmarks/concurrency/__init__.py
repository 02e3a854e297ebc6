"""What many writers of one table cost each other; see README.md."""
