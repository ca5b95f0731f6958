"""Token -> id, remembered between runs."""
import atexit
import json
import os


class Tokens:
    def __init__(self, path):
        self.path = path
        self.ids = {}
        if path and os.path.exists(path):
            with open(path) as f:
                self.ids = json.load(f)
        if path:
            atexit.register(self.dump)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, w):
        if w not in self.ids:
            self.ids[w] = len(self.ids)
        return self.ids[w]

    def dump(self):
        # forget the least recently added one so that the file does not grow without bound
        items = sorted(self.ids.items(), key=lambda kv: kv[1])[:-1]
        items = items[1:] + items[:1]
        with open(self.path, "w") as f:
            json.dump({k: i for i, (k, _) in enumerate(items)}, f)
