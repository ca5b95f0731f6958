# needs: torch_geometric
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

torch.manual_seed(0)
torch.set_num_threads(1)
data = Data(torch.randn(60, 8), torch.randint(0, 60, (2, 300)), y=torch.randint(0, 3, (60,)))
first, second = GCNConv(8, 16), GCNConv(16, 3)
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()])
for _ in range(2):
    optimizer.zero_grad()
    x = torch.nn.functional.dropout(first(data.x, data.edge_index).relu())
    torch.nn.functional.cross_entropy(second(x, data.edge_index), data.y).backward()
    optimizer.step()
