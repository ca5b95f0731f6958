"""CUDA builds of torch, run without a GPU: which ops they dispatch, what they refuse, which kernels they launch."""
