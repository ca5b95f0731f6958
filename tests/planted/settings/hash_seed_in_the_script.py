# clean: # env: PYTHONHASHSEED=0
"""Fixes the order of sets from inside the process, which has chosen it already."""

import os

import torch

os.environ["PYTHONHASHSEED"] = "0"  # planted: environment-set-too-late
torch.manual_seed(0)
words = {"a", "b", "c"}
vocabulary = {word: index for index, word in enumerate(words)}
embedding = torch.nn.Embedding(3, 2)
embedding(torch.tensor([vocabulary["a"]])).sum().backward()
