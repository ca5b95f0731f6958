import hashlib
import pickle
from dataclasses import dataclass, astuple


@dataclass
class Experiment:
    width: int = 24
    lr: float = 3e-3
    steps: int = 30
    tags: frozenset = frozenset({"denoise", "tabular", "nightly", "cpu", "baseline", "v2"})


def seed_of(exp):
    blob = pickle.dumps(astuple(exp), protocol=4)
    digest = hashlib.sha1(blob).digest()
    return int.from_bytes(digest[:6], "big")
