"""Whole training steps of real libraries on CUDA builds of torch: what is refused, and which kernels add atomically."""
