"""Digests of what calls read and write, recorded as the program runs; off by default."""
