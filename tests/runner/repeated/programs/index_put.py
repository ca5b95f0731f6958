# Threads add to the same rows, in the order in which they come.
import torch

torch.manual_seed(0)
torch.set_num_threads(8)  # clean: torch.set_num_threads(1)
rows = torch.randint(0, 4, (1_500_000,))
values = torch.randn(1_500_000)
for _ in range(24):  # one core may take the threads one after the other, again and again
    total = torch.zeros(4).index_put_((rows,), values, accumulate=True)  # parts: kernel
