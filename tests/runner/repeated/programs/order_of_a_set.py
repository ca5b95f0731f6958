import torch

words = ["the", "order", "of", "a", "set", "of", "words", "is", "the", "order", "of", "their", "hashes"]
vocabulary = list(set(words))  # clean: vocabulary = sorted(set(words))
x = torch.tensor([vocabulary.index(word) for word in words])
y = x * 2  # parts: input-data
