"""Mutated files, each made again by its kind and number.

``python -m tests.hostile.cases KIND NUMBER FOLDER`` writes the files of one case.
"""

from __future__ import annotations

import copy
import gzip
import random
import struct
import sys
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.divergence.recorded import Run, program
from tests.hostile.documents import Place, changed, full_document, texts
from tests.hostile.payloads import PAYLOADS
from tests.support.build import environment, finding
from tracer.doctor import Outlook
from tracer.doctor.two_machines import Machine
from tracer.gate import format_baseline, updated
from tracer.names import Backend
from tracer.trace.records import CudaDevice
from tracer.trace.values import columns

LOCK = "determinism.lock"
SOURCE = """import torch

def step(x, i, y):
    # in the first line of the step
    x.index_add_(
        0, i, y,
    )  # tracer: ignore[cuda-*] rows are summed on purpose
    x.add_(1)  # tracer: host



x.index_add_(0, i, y)  # tracer: ignore[cuda-index-add, cpu-*]
"""
CONFIGURATION = f"""[project]
name = "x"

[tool.tracer]
backend = "cuda"
torch = "2.6"
settings = "default"
strict = false
fail-on = ["nondeterministic", "raises"]
select = ["cuda-*"]
ignore = ["cuda-baddbmm"]
host = ["loss"]
allow-no-training = true
baseline = "{LOCK}"
"""

Files = dict[str, bytes]
"""What lies in the folder of a case, by name."""


class Kind(NamedTuple):
    """Files of one kind: which is mutated, how, and what reads it."""

    name: str
    """The file's, in the folder."""
    mutations: tuple[Callable[[random.Random, bytes], bytes], ...]
    lines: tuple[tuple[str, ...], ...]
    """Command lines that read it."""
    cases: int


def good_files(folder: Path) -> Files:
    """A folder of which nothing is wrong."""
    document = full_document(inputs="text")
    data = msgspec.json.encode(document)
    accepted = updated([finding(location="train.py:10"), finding("cuda-cumsum", location="train.py:5")], ())
    for name, bend in (("t", {}), ("u", {"kernel": 2})):
        run = Run(folder / f"{name}.values")
        program(run, **bend)
        run.values()
    from safetensors.torch import save
    from torch import arange, rand

    kept = {"text/self": rand(10, 4), "text/index": arange(500) % 10, "text/source": rand(500, 4)}
    return {
        "t.trace.json": data,
        "u.trace.json": data,
        "t.trace.json.gz": gzip.compress(data, mtime=0),
        "t.values": (folder / "t.values").read_bytes(),
        "u.values": (folder / "u.values").read_bytes(),
        "t.inputs.safetensors": save(kept),
        LOCK: format_baseline(accepted).encode(),
        "pyproject.toml": CONFIGURATION.encode(),
        "train.py": SOURCE.encode(),
        "t.doctor.json": machine(),
        "u.doctor.json": machine(variables={"NCCL_ALGO": "Ring"}, num_threads=8),
    }


def machine(**fields: Any) -> bytes:
    """A file of ``tracer doctor --save``."""
    found = environment(settings={"torch.backends.opt_einsum.enabled": True}, **fields)
    outlook = Outlook(
        backends=(Backend.CPU, Backend.CUDA),
        has_torch=True,
        versions={"Python": "3.11.9", "torch": "2.13.0", "processor": "A"},
        devices=(CudaDevice(name="NVIDIA H100", capability="9.0"),),
    )
    return msgspec.json.encode(Machine(doctor=1, tracer_version="0.1.0", environment=found, outlook=outlook))


# --- mutations ---


TOKENS = (b"{}", b"null", b"-1", b"1e999", b"\xff\xfe", b"\xef\xbb\xbf", b'"', b"\\")


def bytes_changed(chance: random.Random, data: bytes) -> bytes:
    """Some bytes flipped, cut, doubled, moved, zeroed or put in between."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 5, 40))):
        at = chance.randrange(len(found) + 1)
        to = min(len(found), at + chance.choice((1, 1, 2, 7, 100, 5000)))
        match chance.randrange(8):
            case 0 if at < len(found):
                found[at] ^= 1 << chance.randrange(8)
            case 1:
                del found[at:to]
            case 2:
                found[at:at] = found[at:to] * chance.choice((1, 1, 50))
            case 3:
                found[at:to] = bytes(to - at)
            case 4:
                found[at:at] = chance.randbytes(chance.choice((1, 4, 200)))
            case 5:
                del found[at:]
            case 6:
                found[at:at] = chance.choice(list(PAYLOADS.values())).encode()
            case _:
                found[at:to] = chance.choice(TOKENS)
    return bytes(found)


WIDE = (0.5, 1e308, -0.0, -1, *(2**n for n in (0, 1, 31, 53, 63, 64)), 2**63 - 1, -(2**63))
DEEP: tuple[Any, ...] = ([], {}, [[]], [None], {"": ""}, {"a": {"a": {"a": None}}}, [1] * 50)
WORDS = ("", "0", "forward", "deterministic", "cuda", "2.13.0", "a:1")
ODD: tuple[Any, ...] = (None, True, False, 0, *WIDE, *DEEP, *WORDS)


def nodes(value: Any, at: Place = ()) -> Iterator[Place]:
    """The place of every value within a document."""
    if at:
        yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from nodes(one, (*at, key))


def node_changed(chance: random.Random, document: Any) -> Any:
    """A document with one value replaced, left out, doubled or moved elsewhere."""
    places = list(nodes(document))
    if not places:
        return chance.choice(ODD)
    place = chance.choice(places)
    made = copy.deepcopy(document)
    inner = made
    for key in place[:-1]:
        inner = inner[key]
    last: Any = place[-1]
    match chance.randrange(7):
        case 0:
            del inner[last]
        case 1 if isinstance(inner, list):
            inner[last:last] = [inner[last]] * chance.choice((1, 3, 300))
        case 2:
            other = chance.choice(places)
            value = document
            for key in other:
                value = value[key]
            inner[last] = copy.deepcopy(value)
        case 3:
            inner[last] = chance.choice(list(PAYLOADS.values()))
        case _:
            inner[last] = chance.choice(ODD)
    return made


def json_changed(chance: random.Random, data: bytes) -> bytes:
    """One to three values of a JSON document changed."""
    document = msgspec.json.decode(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        document = node_changed(chance, document)
    return msgspec.json.encode(document)


def text_changed(chance: random.Random, data: bytes) -> bytes:
    """Harmful texts at one place of a trace, or at several."""
    document = msgspec.json.decode(data)
    places = list(texts(document))
    for _ in range(chance.choice((1, 1, 1, 1, 4))):
        place = chance.choice(places)
        try:
            document = changed(document, place, chance.choice(list(PAYLOADS.values())))
        except (KeyError, TypeError):  # an entry that another one took the name of
            continue
    return msgspec.json.encode(document)


def every_text_changed(chance: random.Random, data: bytes) -> bytes:
    """The same harmful text wherever a trace may hold any."""
    document = msgspec.json.decode(data)
    text = chance.choice(list(PAYLOADS.values())).replace("\ud800", "")
    for place in texts(document):
        key = str(place[-1])
        if key not in CLOSED and len(place) > 1 and not key.startswith("\0") and chance.random() < 0.9:
            document = changed(document, place, text)
    return msgspec.json.encode(document)


#: Fields of closed vocabularies, and those without which nothing is judged.
CLOSED = {
    *("phase", "kind", "origin", "workers_origin", "source", "use", "language", "direction", "inside", "choice"),
    *("torch", "deterministic_mode", "op", "device", "dtype", "before", "after", "why", "default_dtype"),
    "float32_matmul_precision",
}


def line_changed(chance: random.Random, data: bytes) -> bytes:
    """A line, or a word of one, replaced, left out, doubled or followed by something harmful."""
    lines = data.decode().split("\n")
    at = chance.randrange(len(lines))
    words = lines[at].split(" ")
    word = chance.randrange(len(words))
    payload = chance.choice([*PAYLOADS.values(), "1", "true", "[]", '""', '"x"', "{}", "0000-00-00", "9" * 400])
    match chance.randrange(5):
        case 0:
            words[word] = payload
        case 1:
            words[word] += payload
        case 2:
            del words[word]
        case 3:
            words *= chance.choice((2, 3, 500))
        case _:
            words.reverse()
    lines[at] = " ".join(words)
    return "\n".join(lines).encode("utf-8", "replace")


def block_changed(chance: random.Random, data: bytes) -> bytes:
    """One block of a file of values changed inside, with the checksum that it then has; blocks moved or left out."""
    stream = BytesIO(data)
    stream.read(len(columns.MAGIC))
    found = list(columns.blocks_of(stream))
    at = chance.randrange(len(found))
    kind, body = found[at]
    match chance.randrange(8):
        case 0:
            found[at:at] = [found[at]]
        case 1:
            del found[at]
        case 2:
            chance.shuffle(found)
        case 3:
            found[at] = (chance.choice((b"H", b"C", b"E", b"X")), body)
        case 4:
            found[at] = (kind, bytes_changed(chance, body))
        case _:
            try:
                found[at] = (kind, msgspec.msgpack.encode(node_changed(chance, msgspec.msgpack.decode(body))))
            except (OverflowError, RecursionError):
                found[at] = (kind, b"\xc0")
    return columns.MAGIC + b"".join(columns.framed(kind, body) for kind, body in found)


def header_changed(chance: random.Random, data: bytes) -> bytes:
    """The header of a file of tensors changed, and sometimes what it says of its own length."""
    (length,) = struct.unpack_from("<Q", data)
    header = json_changed(chance, data[8 : 8 + length])
    said = chance.choice((len(header), len(header), len(header), 0, 2**63, length))
    return struct.pack("<Q", said) + header + data[8 + length :]


TRACE_LINES = (
    ("report", "t.trace.json"),
    ("report", "t.trace.json", "--verbose", "--backend", "cuda"),
    ("report", "t.trace.json", "--backend", "cuda", "--format", "html,json,markdown,sarif,junit,csv", "-o", "out"),
    ("report", "t.trace.json", "u.trace.json", "--format", "html", "-o", "out.html"),
    ("check", "t.trace.json"),
    ("diff", "t.trace.json", "u.trace.json"),
    ("diff", "t.trace.json", "--backend", "cpu,cuda", "--format", "json"),
    ("repro", "t.trace.json", "aten.index_add_", "-o", "out.py"),
    ("repro", "t.trace.json", "1"),
)
KINDS: dict[str, Kind] = {
    "trace-bytes": Kind("t.trace.json", (bytes_changed,), TRACE_LINES, 700),
    "trace-fields": Kind("t.trace.json", (json_changed,), TRACE_LINES, 1300),
    "trace-texts": Kind("t.trace.json", (text_changed, text_changed, every_text_changed), TRACE_LINES, 1000),
    "trace-packed": Kind("t.trace.json.gz", (bytes_changed,), (("report", "t.trace.json.gz"),), 300),
    "values": Kind(
        "t.values",
        (bytes_changed, block_changed, block_changed),
        (("diff", "t.values", "u.values"), ("diff", "u.trace.json", "t.trace.json", "--format", "json")),
        800,
    ),
    "lock": Kind(
        LOCK,
        (bytes_changed, line_changed, line_changed),
        (
            ("check", "u.trace.json", "--baseline", LOCK),
            ("check", "u.trace.json", "--baseline", LOCK, "--update-baseline"),
        ),
        400,
    ),
    "configuration": Kind(
        "pyproject.toml", (bytes_changed, line_changed, line_changed), (("check", "u.trace.json"),), 300
    ),
    "inputs": Kind(
        "t.inputs.safetensors",
        (bytes_changed, header_changed, header_changed),
        (("repro", "t.trace.json", "aten.index_add_", "--backend", "cuda", "--with-values", "-o", "out.py"),),
        300,
    ),
    "sources": Kind("train.py", (bytes_changed, line_changed), (("check", "u.trace.json", "--backend", "cuda"),), 150),
    "machine": Kind(
        "t.doctor.json",
        (bytes_changed, json_changed, json_changed),
        (("diff", "t.doctor.json", "u.doctor.json"), ("diff", "u.doctor.json", "t.doctor.json", "--format", "json")),
        300,
    ),
    "repeat-folder": Kind(
        "",
        (bytes_changed, json_changed, block_changed),
        (("diff", "t.trace.json", "u.trace.json", "--fail-on", "parted"), ("diff", "t.values", "u.values")),
        250,
    ),
}
CASES = [(kind, number) for kind, one in KINDS.items() for number in range(one.cases)]


def mutated(kind: str, number: int, good: Files) -> Files:
    """The folder of one case."""
    chance = random.Random(f"{kind}:{number}")
    if kind == "repeat-folder":
        return _mixed(chance, good)
    name, mutations = KINDS[kind].name, KINDS[kind].mutations
    return {**good, name: chance.choice(mutations)(chance, good[name])}


def _mixed(chance: random.Random, good: Files) -> Files:
    """Several files of two recordings at once: changed, exchanged, left out."""
    names = ["t.trace.json", "u.trace.json", "t.values", "u.values"]
    made = dict(good)
    for name in chance.sample(names, chance.choice((1, 2, 3))):
        match chance.randrange(4):
            case 0:
                del made[name]
            case 1:
                made[name] = good[chance.choice(names)]
            case 2:
                made[name] = bytes_changed(chance, good[name])
            case _:
                made[name] = (json_changed if name.endswith(".json") else block_changed)(chance, good[name])
    return made


if __name__ == "__main__":
    target = Path(sys.argv[3])
    target.mkdir(parents=True, exist_ok=True)
    for file, content in mutated(sys.argv[1], int(sys.argv[2]), good_files(target)).items():
        (target / file).write_bytes(content)
