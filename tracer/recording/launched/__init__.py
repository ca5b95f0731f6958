"""What a program launches past the dispatcher: Triton kernels of its own, captured CUDA graphs."""
