"""A run that saves a checkpoint with the generators' states, and goes on from it in the same process."""

import tempfile
from pathlib import Path

import torch
from torch import nn


def make() -> tuple:
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, 1))
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        inputs = torch.randn(16, 8)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        print(loss.item().hex())


def main() -> None:
    torch.manual_seed(0)
    model, optimizer = make()
    train(model, optimizer, 2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        torch.save(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "generator": torch.get_rng_state()}, path
        )
        model, optimizer = make()
        saved = torch.load(path)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["generator"])
    train(model, optimizer, 2)


if __name__ == "__main__":
    main()
