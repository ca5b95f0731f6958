"""Sets whose order nothing hangs on: sorted, counted, asked, said; and sets of numbers."""

import torch

TEXT = "the quick brown fox jumps over the lazy dog"
words = set(TEXT.split())
vocabulary = {word: index for index, word in enumerate(sorted(words))}
numbers = [vocabulary["fox"], len(words), max(len(word) for word in words), "dog" in words]
numbers += list({3, 1, 2})
numbers += [sum(len(word) for word in words), len({word.upper() for word in words})]
for word in words - {"the"}:
    print(word)
for name in sorted({"b", "a"}):
    numbers.append(len(name))
for name in dict.fromkeys(["b", "a"]):
    numbers.append(len(name))
weight = torch.ones(len(numbers), requires_grad=True)
optimizer = torch.optim.SGD([weight], 0.1)
(torch.tensor(numbers, dtype=torch.float32) @ weight).backward()
optimizer.step()
