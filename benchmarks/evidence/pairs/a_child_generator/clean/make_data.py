import json
import random
import sys


def main(n, seed):
    rnd = random.Random(seed)
    rows = []
    for _ in range(n):
        a, b = rnd.uniform(-1, 1), rnd.uniform(-1, 1)
        rows.append([a, b, int(a * a + b * b < 0.6)])
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
