"""Inductor's generated code: its kernels, the ops fused into each, whether their threads write the same elements."""
