import torch


class IdBuffer:
    def __init__(self, capacity=32):
        self.data = torch.zeros(capacity, dtype=torch.long)
        self.used = 0

    def extend(self, ids):
        need = self.used + len(ids)
        if need > len(self.data):
            self.data.resize_(max(need, 2 * len(self.data)))
        self.data[self.used:need] = torch.tensor(ids)
        self.used = need

    def padded(self, length):
        if len(self.data) < length:
            self.data.resize_(length)
        self.data[self.used:] = 0
        return self.data[:length].clone()
