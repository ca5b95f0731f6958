"""Calls made again on the spot: the same inputs, the same generators, and the results compared."""
