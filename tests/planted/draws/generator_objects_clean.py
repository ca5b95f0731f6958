"""The same generators, each seeded where it is made or before it is drawn from; copied, pickled, and unused ones."""

import copy
import pickle
import random
import tempfile

import numpy as np
import torch
from numpy.random import RandomState

torch.manual_seed(0)
np.random.seed(0)
random.seed(0)
python = random.Random(0)
numpy = RandomState(seed=0)
numbers = [
    np.random.RandomState(1).rand(),
    numpy.rand(),
    copy.deepcopy(numpy).rand(),
    pickle.loads(pickle.dumps(numpy)).rand(),
    np.random.Generator(np.random.PCG64(2)).random(),
    pickle.loads(pickle.dumps(np.random.default_rng(seed=3))).random(),
    np.random.default_rng(np.random.SeedSequence(4).spawn(1)[0]).random(),
    python.random(),
    copy.copy(python).random(),
    pickle.loads(pickle.dumps(python)).random(),
    random.Random("a text").random(),
]
later = random.Random()
later.seed(0)
restored = random.Random()
restored.setstate(python.getstate())
numbers += [later.random(), restored.random()]
unused = random.Random()
given = RandomState()
given.seed(5)
numbers.append(given.rand())
with tempfile.TemporaryDirectory() as folder:
    weight = torch.ones(len(numbers), requires_grad=True)
    optimizer = torch.optim.SGD([weight], 0.1)
    (torch.tensor(numbers, dtype=torch.float32) @ weight).backward()
    optimizer.step()
