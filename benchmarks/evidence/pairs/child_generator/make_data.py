import argparse
import json
import random

p = argparse.ArgumentParser()
p.add_argument("--n", type=int)
p.add_argument("--seed", type=int)
a = p.parse_args()
if a.seed is not None:
    random.seed(a.seed)
for _ in range(a.n):
    x = [random.uniform(-1, 1), random.uniform(-1, 1)]
    print(json.dumps({"x": x, "y": float(x[0] ** 2 + x[1] ** 2 < 0.5)}))
