"""Determinism tables: reviewed data files, one a backend, and what reads, checks and proves them."""
