# env: PYTHONHASHSEED=0
"""Python was started with a fixed order of sets; saying so again changes nothing."""

import os

import torch

os.environ["PYTHONHASHSEED"] = "0"
torch.manual_seed(0)
words = {"a", "b", "c"}
vocabulary = {word: index for index, word in enumerate(words)}
embedding = torch.nn.Embedding(3, 2)
embedding(torch.tensor([vocabulary["a"]])).sum().backward()
