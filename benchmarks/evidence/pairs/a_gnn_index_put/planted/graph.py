import torch


def random_graph(nodes, edges, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(0, nodes, (2, edges), generator=g), torch.randn(nodes, 8, generator=g)


def aggregate(messages, dst, nodes):
    out = torch.zeros(nodes, messages.size(1))
    return out.index_put_((dst,), messages, accumulate=True)
