"""Proofs about the tables, and the commands that generate what is derived from them."""
