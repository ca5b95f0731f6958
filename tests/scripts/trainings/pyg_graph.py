"""Graph attention and pooling with PyTorch Geometric, over a random graph."""

import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATConv, GCNConv, global_mean_pool


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = GCNConv(8, 16)
        self.second = GATConv(16, 8, heads=2)
        self.head = nn.Linear(16, 3)

    def forward(self, data: Data) -> torch.Tensor:
        hidden = self.first(data.x, data.edge_index).relu()
        hidden = self.second(hidden, data.edge_index).relu()
        return self.head(global_mean_pool(hidden, data.batch))


def main() -> None:
    torch.manual_seed(0)
    graphs = [Data(x=torch.randn(10, 8), edge_index=torch.randint(0, 10, (2, 30))) for _ in range(6)]
    batch, labels = Batch.from_data_list(graphs), torch.randint(0, 3, (6,))
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
        print(loss.item().hex())


if __name__ == "__main__":
    main()
