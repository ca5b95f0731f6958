"""The functions that make data in a program of ``tracer repro``: each is copied whole into a program that calls it."""

import torch

DEVICE = "cpu"
GENERATOR = torch.Generator()


def laid_out(make, shape, strides):
    """Numbers of ``make`` in memory of the recorded strides."""
    if strides is None:
        return make(shape).to(DEVICE)
    reach = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if 0 not in shape else 0
    return make([reach]).to(DEVICE).as_strided(shape, strides)


def floats(dtype, shape, strides=None):
    """Normally distributed numbers."""
    kind = getattr(torch, dtype)
    wide = kind if kind in (torch.float32, torch.float64, torch.complex64, torch.complex128) else torch.float32
    return laid_out(lambda size: torch.randn(size, dtype=wide, generator=GENERATOR).to(kind), shape, strides)


def uniform(dtype, shape, strides=None):
    """Numbers between 0 and 1."""
    kind = getattr(torch, dtype)
    return laid_out(lambda size: torch.rand(size, generator=GENERATOR).clamp(0.01, 0.99).to(kind), shape, strides)


def tied(dtype, shape, strides=None):
    """Numbers of which many are equal."""
    kind = getattr(torch, dtype)
    return laid_out(lambda size: torch.randint(0, 8, size, generator=GENERATOR).to(kind), shape, strides)


def booleans(dtype, shape, strides=None):
    """True and false, as often."""
    kind = getattr(torch, dtype)
    return laid_out(lambda size: torch.randint(0, 2, size, generator=GENERATOR).to(kind), shape, strides)


def chosen(dtype, shape, count):
    """As many true as ``count``, anywhere."""
    drawn = torch.rand(shape, generator=GENERATOR).flatten().argsort().argsort() < count
    return drawn.reshape(shape).to(getattr(torch, dtype)).to(DEVICE)


def integers(dtype, shape, below, strides=None):
    """Whole numbers from 0 on, drawn with repeats."""
    kind = getattr(torch, dtype)
    return laid_out(lambda size: torch.randint(0, max(below, 1), size, generator=GENERATOR).to(kind), shape, strides)


def once_each(dtype, shape, below, dim):
    """Whole numbers from 0 on, of which none occurs twice along ``dim``."""
    drawn = torch.rand([*shape[:dim], below, *shape[dim + 1 :]], generator=GENERATOR)
    return drawn.argsort(dim).narrow(dim, 0, shape[dim]).contiguous().to(getattr(torch, dtype)).to(DEVICE)


def offsets(dtype, count, whole, ends):
    """Where pieces of equal length begin; ``ends``: the last number is the end."""
    pieces = max(count - 1 if ends else count, 1)
    return torch.tensor([whole * place // pieces for place in range(count)], dtype=getattr(torch, dtype)).to(DEVICE)


def lengths(dtype, count, whole):
    """Lengths of pieces, as equal as can be, that add up to ``whole``."""
    ends = [whole * place // count for place in range(count + 1)]
    found = [ends[place + 1] - ends[place] for place in range(count)]
    return torch.tensor(found, dtype=getattr(torch, dtype)).to(DEVICE)


def spread(dtype, count, bags):
    """The bag that each of ``count`` elements lies in, in order."""
    return (torch.arange(count) * max(bags, 1) // max(count, 1)).to(getattr(torch, dtype)).to(DEVICE)


def sparse(dtype, shape):
    """Numbers of which nine in ten are zero."""
    return floats(dtype, shape) * (uniform("float32", shape) < 0.1)


def definite(dtype, shape):
    """Symmetric positive definite matrices."""
    drawn = floats(dtype, shape)
    return drawn @ drawn.mT + shape[-1] * torch.eye(shape[-1], dtype=drawn.dtype, device=DEVICE)


def boxes(dtype, shape, images):
    """Corners of boxes, below 16; before them the number of an image where there are five columns."""
    corner = torch.rand([shape[0], 2], generator=GENERATOR) * 8
    found = torch.cat([corner, corner + 1 + torch.rand([shape[0], 2], generator=GENERATOR) * 7], 1)
    if shape[-1] == 5:
        found = torch.cat([torch.randint(0, max(images, 1), [shape[0], 1], generator=GENERATOR), found], 1)
    return found.to(getattr(torch, dtype)).to(DEVICE)


def kept(file, name, strides=None):
    """A tensor of the recorded run, in memory of the recorded strides."""
    values = file[name].to(DEVICE)
    if strides is None:
        return values
    for dim, stride in enumerate(strides):
        values = values.narrow(dim, 0, 1) if stride == 0 and values.shape[dim] > 1 else values
    reach = 1 + sum((size - 1) * stride for size, stride in zip(values.shape, strides, strict=True))
    memory = torch.zeros([reach], dtype=values.dtype, device=DEVICE)
    memory.as_strided(values.shape, strides).copy_(values)
    return memory.as_strided(file[name].shape, strides)
