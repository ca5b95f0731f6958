# The kernel that varies is the backward of an indexing.
import torch

torch.manual_seed(0)
torch.set_num_threads(2)  # clean: torch.set_num_threads(1)
table = torch.zeros(3, requires_grad=True)
rows = torch.randint(0, 3, (1_000_000,))
weights = torch.randn(1_000_000)
for _ in range(12):  # one core may take the threads one after the other, again and again
    picked = table[rows]  # parts: kernel
    (picked * weights).sum().backward()
    table.grad = None
