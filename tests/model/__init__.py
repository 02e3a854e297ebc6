"""Explicit-state models of protocols: every interleaving of a few actors, with lost locks and crashes."""
