"""Storages: reads of uninitialized memory, overlapping writes, addresses that escape, contents of index tensors."""
