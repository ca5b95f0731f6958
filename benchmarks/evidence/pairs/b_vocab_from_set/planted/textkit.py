CORPUS = [
    "the kernel panicked after the firmware update",
    "a gentle breeze moved over the harbour",
    "packets were dropped by the old switch",
    "she painted the fence in pale green",
    "the scheduler starved two worker threads",
    "they baked bread with rye and honey",
    "cache lines bounced between both sockets",
    "the orchard smelled of apples and rain",
]


class Tokenizer:
    def __init__(self, corpus, specials=("<unk>", "<pad>")):
        words = set()
        for line in corpus:
            words.update(line.split())
        self.stop = {w for w in words if len(w) < 3}
        table = dict.fromkeys(specials)
        table.update(dict.fromkeys(words - self.stop))
        self.index = {w: i for i, w in enumerate(table)}

    def __len__(self):
        return len(self.index)

    def encode(self, line):
        return [self.index.get(w, 0) for w in line.split() if w not in self.stop]
