"""What is read in the code that Inductor wrote: its kernels, what went into each, whether their threads meet."""
