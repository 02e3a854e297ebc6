"""Guards of the product that are removed, one at a time, to prove that tests find it. Not collected by pytest."""
