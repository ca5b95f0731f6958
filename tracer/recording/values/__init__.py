"""Digests of what calls read and wrote, kept while the program runs; nothing of it is on unless asked for."""
