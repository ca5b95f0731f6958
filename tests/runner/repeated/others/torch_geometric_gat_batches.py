# needs: torch_geometric
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, global_mean_pool

torch.manual_seed(0)
torch.set_num_threads(1)
graphs = [Data(torch.randn(10, 8), torch.randint(0, 10, (2, 30)), y=torch.tensor([one % 2])) for one in range(8)]
conv, head = GATConv(8, 8, heads=2), torch.nn.Linear(16, 2)
optimizer = torch.optim.Adam([*conv.parameters(), *head.parameters()])
for batch in DataLoader(graphs, batch_size=4, shuffle=True):
    optimizer.zero_grad()
    x = global_mean_pool(conv(batch.x, batch.edge_index), batch.batch)
    torch.nn.functional.cross_entropy(head(x), batch.y).backward()
    optimizer.step()
