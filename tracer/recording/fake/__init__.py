"""A step on fake tensors: no memory, no data, and the machine that was asked for."""
