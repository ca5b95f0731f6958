"""Numbers of generators that are objects, each made without a seed."""

# clean: import copy
# clean: import pickle
import random
# clean: import tempfile

import numpy as np
import torch
from numpy.random import RandomState

torch.manual_seed(0)
np.random.seed(0)
random.seed(0)
# clean: python = random.Random(0)
# clean: numpy = RandomState(seed=0)
numbers = [
    np.random.RandomState().rand(),  # planted: environment-numpy-generator-objects  # clean:
    RandomState(None).rand(),  # planted: environment-numpy-generator-objects  # clean:
    np.random.Generator(np.random.PCG64()).random(),  # planted: environment-numpy-generator-objects  # clean:
    np.random.default_rng().random(),  # planted: environment-numpy-generator-objects  # clean:
    random.Random().random(),  # planted: environment-python-generator-objects  # clean:
    # clean:     np.random.RandomState(1).rand(),
    # clean:     numpy.rand(),
    # clean:     copy.deepcopy(numpy).rand(),
    # clean:     pickle.loads(pickle.dumps(numpy)).rand(),
    # clean:     np.random.Generator(np.random.PCG64(2)).random(),
    # clean:     pickle.loads(pickle.dumps(np.random.default_rng(seed=3))).random(),
    # clean:     np.random.default_rng(np.random.SeedSequence(4).spawn(1)[0]).random(),
    # clean:     python.random(),
    # clean:     copy.copy(python).random(),
    # clean:     pickle.loads(pickle.dumps(python)).random(),
    # clean:     random.Random("a text").random(),
]
own = random.Random()  # planted: environment-python-generator-objects  # clean:
numbers.append(own.random())  # clean:
own.seed(0)  # clean:
late = np.random.RandomState()  # planted: environment-numpy-generator-objects  # clean:
numbers.append(late.rand())  # clean:
weight = torch.ones(len(numbers), requires_grad=True)  # clean:
optimizer = torch.optim.SGD([weight], 0.1)  # clean:
(torch.tensor(numbers, dtype=torch.float32) @ weight).backward()  # clean:
optimizer.step()  # clean:
# clean: later = random.Random()
# clean: later.seed(0)
# clean: restored = random.Random()
# clean: restored.setstate(python.getstate())
# clean: numbers += [later.random(), restored.random()]
# clean: unused = random.Random()
# clean: given = RandomState()
# clean: given.seed(5)
# clean: numbers.append(given.rand())
# clean: with tempfile.TemporaryDirectory() as folder:
# clean:     weight = torch.ones(len(numbers), requires_grad=True)
# clean:     optimizer = torch.optim.SGD([weight], 0.1)
# clean:     (torch.tensor(numbers, dtype=torch.float32) @ weight).backward()
# clean:     optimizer.step()
