import numpy as np


def glyph(k, size=32):
    names = [f"stroke-{k}-{j}" for j in range(260)]
    grid = np.empty((size, size), dtype=np.uint8)
    for r in range(size):
        grid[r] = [(len(names[(r * size + c) % 260]) * (k + 1) * (r + c)) % 256 for c in range(size)]
    return grid


class Canvas:
    def __init__(self, height, width):
        self.shape = (height, width)

    def place(self, image):
        out = np.empty(self.shape, dtype=image.dtype)
        out.fill(0)
        h, w = image.shape
        top, left = (self.shape[0] - h) // 2, (self.shape[1] - w) // 2
        out[top:top + h, left:left + w] = image
        return out
