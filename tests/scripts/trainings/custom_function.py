"""An autograd.Function of its own that adds by an index in its backward."""

import torch
from torch import nn


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, rows):
        ctx.save_for_backward(rows)
        ctx.shape = table.shape
        return table[rows]

    @staticmethod
    def backward(ctx, grad):
        (rows,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).index_add_(0, rows, grad), None


def main() -> None:
    torch.manual_seed(0)
    table, head = nn.Parameter(torch.randn(16, 8)), nn.Linear(8, 4)
    optimizer = torch.optim.SGD([table, *head.parameters()], lr=0.1)
    rows, labels = torch.randint(0, 16, (64,)), torch.randint(0, 4, (64,))
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(head(Gather.apply(table, rows)), labels)
        loss.backward()
        optimizer.step()
        print(loss.item().hex())


if __name__ == "__main__":
    main()
