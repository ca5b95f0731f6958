"""Orders that hang on hashes and addresses are found in the program's text, and what nothing hangs on is not."""

from __future__ import annotations

import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from tracer.recording.program_text import set_order

Find = Callable[[str], list[tuple[str, int]]]


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Find:
    monkeypatch.setattr(set_order, "hash_seed", lambda: "random")
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)

    def find(text: str) -> list[tuple[str, int]]:
        file = tmp_path / f"program{len(list(tmp_path.iterdir()))}.py"
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        return [(one.what, one.line) for one in set_order.hashed_and_placed([str(file)])]

    return find


TEXTS, PARTS, BY_ID, HASH = "a set of texts", "a set of a model's parts", "an order by id", "hash"


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        ("words = set()\nwords.update(line.split())\nindex = {w: i for i, w in enumerate(words)}", TEXTS, 3),
        ("words = set()\nfor w in line.split():\n    words.add(w)\nindex = list(words)", TEXTS, 4),
        ("words = set()\nwords |= {'a', 'b'}\nfor w in words:\n    index.append(w)", TEXTS, 3),
        ("chars = list(set('hello world'))", TEXTS, 1),
        ("chars = list(set(Path('x.txt').read_text()))", TEXTS, 1),
        ("rows = [('cat', 1), ('dog', 2)]\nnames = list(frozenset(name for name, _ in rows))", TEXTS, 2),
        ("vocabulary = tuple({w for line in lines for w in line.split()})", TEXTS, 1),
        ("def split(line):\n    return line.lower().split()\nfor w in set(split(line)):\n    index(w)", TEXTS, 3),
        ("def make(tokens):\n    return list(set(tokens))\nmake(line.split())", TEXTS, 2),
        ("class V:\n def make(self):\n  self.w = set()\n  self.w.add('a')\n  return list(self.w)", TEXTS, 5),
        ("names = {'a': 1, 'b': 2}\nfor n in set(names.keys()) - {'a'}:\n    order.append(n)", TEXTS, 2),
        ("names = {'a', 'b'}\nfirst = names.pop()", TEXTS, 2),
        ("key = pickle.dumps({'a', 'b'})", TEXTS, 1),
        ("def bucket(w):\n    return hash(w) % 97\nids = [bucket(w) for w in line.split()]", HASH, 2),
        ("side = hash(f'{name}.png') % 10", HASH, 1),
        ("modules = sorted(net.modules(), key=id)", BY_ID, 1),
        ("modules.sort(key=lambda one: id(one))", BY_ID, 1),
        ("groups = [{'params': list(set(net.parameters()))}]", PARTS, 1),
        (
            "a, b = set(), set()\nfor n, p in net.named_parameters():\n    (a if n else b).add(p)\nuse(list(a))",
            PARTS,
            4,
        ),
    ],
)
def test_an_order_of_hashes_or_addresses_is_found(text: str, what: str, line: int, found: Find) -> None:
    assert found(text) == [(what, line)]


@pytest.mark.parametrize(
    "text",
    [
        "words = set(line.split())\nindex = {w: i for i, w in enumerate(sorted(words))}",
        "numbers = set()\nnumbers.update(range(9))\nfor n in numbers:\n    use(n)",
        "labels = set(y.tolist())\nclasses = list(labels)",
        "def make(tokens):\n    return list(set(tokens))\nmake(range(4))",
        "def make(tokens):\n    return list(set(tokens))",
        "words = set(line.split())\nif 'a' in words:\n    print(len(words))",
        "words = set(line.split())\nwords = [1, 2]\nfor w in words:\n    use(w)",
        "words = list(line.split())\nlast = words.pop()",
        "words = set(line.split())\ncounts = sum(len(w) for w in words)",
        "seen = set(net.parameters())\nleft = [p for p in net.parameters() if p not in seen]",
        "for p in set(net.parameters()):\n    p.requires_grad = False",
        "total = sum(p.numel() for p in set(net.parameters()))",
        "names = sorted({n for n, _ in net.named_parameters()})",
        "side = hash((1, 2)) % 10",
        "class K:\n    def __hash__(self):\n        return hash('k')",
        "modules = sorted(net.modules(), key=name_of)",
        "first = min(ids, key=lambda one: one.id)",
    ],
)
def test_what_nothing_hangs_on_is_not_found(text: str, found: Find) -> None:
    assert found(text) == []


def test_texts_that_are_hashed_alike_in_every_process_leave_addresses(
    found: Find,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(set_order, "hash_seed", lambda: "0")
    assert found("list({'a', 'b'})\nhash('a')\nsorted(net.modules(), key=id)") == [(BY_ID, 3)]


def test_a_module_beside_the_script_is_read_though_no_op_runs_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(set_order, "hash_seed", lambda: "random")
    (tmp_path / "train.py").write_text("import words_beside_the_script\n")
    beside = tmp_path / "words_beside_the_script.py"
    beside.write_text("ORDER = list({'a', 'b'})\n")
    module = types.ModuleType("words_beside_the_script")
    module.__file__ = str(beside)
    monkeypatch.setitem(sys.modules, "words_beside_the_script", module)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(tmp_path / "train.py"), raising=False)
    assert [(one.file, one.line) for one in set_order.hashed_and_placed([])] == [(str(beside), 1)]


def test_a_package_that_lies_beside_the_script_is_read_and_one_that_somebody_installed_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(set_order, "hash_seed", lambda: "random")
    installed, own = tmp_path / "env" / "site-packages" / "installed_words", tmp_path / "own_words"
    for folder in (installed, own):
        folder.mkdir(parents=True)
        for file in ("__init__.py", "words.py"):
            (folder / file).write_text("ORDER = list({'a', 'b'})\n")
            name = folder.name if file == "__init__.py" else f"{folder.name}.words"
            module = types.ModuleType(name)
            module.__file__ = str(folder / file)
            if file == "__init__.py":
                module.__path__ = [str(folder)]
            monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(tmp_path / "train.py"), raising=False)
    read = {one.file for one in set_order.hashed_and_placed([])}
    assert read == {str(own / "__init__.py"), str(own / "words.py")}
