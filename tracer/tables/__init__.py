"""Determinism tables: reviewed data files, one per backend, and the code that reads, checks and proves them."""
