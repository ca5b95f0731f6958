"""Digests of what calls read and wrote, recorded as the program runs; off unless asked for."""
