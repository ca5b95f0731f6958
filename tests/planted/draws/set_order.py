"""Sets of texts are walked in their order: a vocabulary, the order of the samples, classes."""

import torch

TEXT = "the quick brown fox jumps over the lazy dog"
words = set(TEXT.split())
vocabulary = {word: index for index, word in enumerate(words)}  # planted: environment-set-order
numbers = [vocabulary["fox"], vocabulary["dog"]]


def order() -> list[int]:
    found = []
    for name in {"cat", "dog", "bird", "fish"}:  # planted: environment-set-order
        found.append(len(name))
    return found


numbers += order()
numbers += [len(name) for name in {f"sample{10**index}" for index in range(5)}]  # planted: environment-set-order
numbers += [ord(word[0]) for word in list(words | {"end"})]  # planted: environment-set-order
weight = torch.ones(len(numbers), requires_grad=True)
optimizer = torch.optim.SGD([weight], 0.1)
(torch.tensor(numbers, dtype=torch.float32) @ weight).backward()
optimizer.step()
