"""Code that ``torch.compile`` compiled: its regions, their ops and their kernels."""
