"""Work launched past the dispatcher: the program's own Triton kernels, captured CUDA graphs."""
