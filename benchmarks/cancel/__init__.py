"""What cancels of plans cost, and how soon they stop an execution; see README.md."""
