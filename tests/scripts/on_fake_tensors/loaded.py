import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

torch.manual_seed(0)


class Images(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        image = torch.rand(3, 8, 8)
        return {"image": image.flip(-1) + index, "label": index % 4}


model = nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = Images()
loaders = [
    DataLoader(data, batch_size=4, shuffle=True),
    DataLoader(data, batch_size=4, sampler=WeightedRandomSampler([1.0] * 10, 10), drop_last=True),
]
for loader in loaders:
    for batch in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch["image"]), batch["label"]).backward()
        optimizer.step()
