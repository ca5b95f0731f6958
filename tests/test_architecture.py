"""The floors hold: imports point down only, folders make no ring, and names say what things are."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tracer"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "_templates" not in path.parts)

#: What stands on which floor; a room may import from floors below it, and from itself. Rooms on one floor do not know
#: of each other.
FLOORS = {
    **dict.fromkeys(("names", "errors", "plain"), 0),
    **dict.fromkeys(("files", "ops", "facts"), 1),
    **dict.fromkeys(("trace",), 2),
    **dict.fromkeys(("findings",), 3),
    **dict.fromkeys(("tables",), 4),
    **dict.fromkeys(("plan", "recording", "judging", "gate", "divergence"), 5),
    **dict.fromkeys(("report", "reproducing", "bundled"), 6),
    **dict.fromkeys(("doctor", "session", "one_call"), 7),
    **dict.fromkeys(("runner",), 8),
    **dict.fromkeys(("cli", "integrations"), 9),
    **dict.fromkeys(("__main__", "__init__"), 10),
}
#: Modules that may lie loose at the top of the package, beside its ``__init__``.
LOOSE = 9
VAGUE = {"util", "utils", "helper", "helpers", "common", "manager", "misc", "base", "core", "stuff"}


def part_of(module: Path) -> str:
    """``tracer/report/page/html.py`` belongs to ``report``, ``tracer/plan.py`` to ``plan``."""
    return module.relative_to(PACKAGE).with_suffix("").parts[0]


def name_of(module: Path) -> str:
    return str(module.relative_to(ROOT))


@cache
def parsed(module: Path) -> ast.Module:
    """The tree of a module, parsed once for all tests of this process."""
    return ast.parse(module.read_text(encoding="utf-8"))


Imports = tuple[ast.Import | ast.ImportFrom, ...]


def imports_in(tree: ast.Module) -> Imports:
    """Each import, wherever it stands: at the top, inside functions, for types alone. Only statements are walked."""
    found: list[ast.Import | ast.ImportFrom] = []
    inner: list[ast.AST] = [tree]
    for node in inner:
        for part in ("body", "handlers", "cases", "orelse", "finalbody"):
            for one in getattr(node, part, ()):
                if isinstance(one, (ast.Import, ast.ImportFrom)):
                    found.append(one)
                else:
                    inner.append(one)
    return tuple(found)


@cache
def nodes_of(module: Path) -> Imports:
    """``imports_in`` a module, looked for once."""
    return imports_in(parsed(module))


def imported_parts(module: Path) -> Iterator[tuple[int, str]]:
    """Line and part for each import of the package itself, at the top or inside a function.

    ``import tracer`` and ``from tracer import __version__`` name no part; ``from tracer import judge`` names one
    of those that the face offers, which counts as ``__init__``.
    """
    for node in nodes_of(module):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        else:
            assert node.level == 0, f"{name_of(module)}:{node.lineno}: a relative import"
            named = [f"{node.module}.{alias.name}" for alias in node.names if alias.name != "__version__"]
        for parts in (name.split(".") for name in named):
            if parts[0] == "tracer" and len(parts) > 1:
                of_face = isinstance(node, ast.ImportFrom) and node.module == "tracer" and parts[1] not in FLOORS
                yield node.lineno, "__init__" if of_face else parts[1]


def wrong_imports(module: Path) -> Iterator[str]:
    here = part_of(module)
    if here not in FLOORS:
        yield f"{name_of(module)} is on no floor; design.md names them"
    elif here != "__init__":  # the face names everything, lazily
        for line, there in imported_parts(module):
            where = f"{name_of(module)}:{line} imports tracer.{there}"
            if there not in FLOORS:
                yield f"{where}, which is on no floor"
            elif there != here and FLOORS[there] >= FLOORS[here]:
                yield f"{where}, which is not below it"


def test_imports_point_down_only() -> None:
    assert [wrong for module in MODULES for wrong in wrong_imports(module)] == []


def imports_of(sources: dict[str, Imports]) -> dict[str, set[str]]:
    """Module -> the modules that it imports.

    ``sources``: what each module imports by its dotted name. A package's ``__init__`` is a face that names what lies
    below it and is no part of the picture.
    """
    found: dict[str, set[str]] = {name: set() for name in sources}
    for name, nodes in sources.items():
        for node in nodes:
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            else:
                targets = [f"{node.module}.{alias.name}" for alias in node.names] + [node.module or ""]
            targets += [f"{target}.__init__" for target in targets]
            found[name] |= {target for target in targets if target in sources and target != name}
    return found


def circles_among(imports: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """Names that lead back to themselves: each circle once."""
    found: set[tuple[str, ...]] = set()
    done: set[str] = set()

    def follow(name: str, path: list[str]) -> None:
        if name in path:
            circle = path[path.index(name) :]
            first = circle.index(min(circle))
            found.add(tuple(circle[first:] + circle[:first]))
        elif name not in done:
            for other in sorted(imports.get(name, ())):
                follow(other, [*path, name])
            done.add(name)

    for name in sorted(imports):
        follow(name, [])
    return sorted(found)


def dotted(module: Path) -> str:
    return ".".join(module.relative_to(ROOT).with_suffix("").parts)


def test_no_modules_import_one_another_in_a_circle() -> None:
    assert (
        circles_among(imports_of({dotted(path): nodes_of(path) for path in MODULES if path.stem != "__init__"})) == []
    )


@pytest.mark.parametrize(
    "way_back",
    [
        "from tracer.a import A",
        "import tracer.a",
        "from tracer import a",
        "def f():\n    from tracer.a import A",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tracer.a import A",
    ],
)
def test_a_circle_is_seen_however_it_is_closed(way_back: str) -> None:
    texts = {"tracer.a": "from tracer.room.b import B", "tracer.room.b": way_back, "tracer.c": "import tracer.a"}
    sources = {name: imports_in(ast.parse(text)) for name, text in texts.items()}
    assert circles_among(imports_of(sources)) == [("tracer.a", "tracer.room.b")]
    assert (
        circles_among(imports_of({**sources, "tracer.room.b": imports_in(ast.parse("from tracer.c.d import A"))})) == []
    )


def rooms_of(sources: dict[str, Imports], folder: str) -> dict[str, set[str]]:
    """Room -> the rooms beside it that it imports, for the folders in ``folder``; ``__init__`` files count too.

    Only what is imported as a file loads, or for types: a function that imports when it is called makes no circle.
    """

    def room(name: str) -> str | None:
        parts = name.removeprefix(f"{folder}.").split(".")
        return parts[0] if name.startswith(f"{folder}.") and len(parts) > 1 else None

    found: dict[str, set[str]] = {}
    for name, targets in imports_of(sources).items():
        here = room(name)
        if here is not None:
            found.setdefault(here, set()).update(there for there in map(room, targets) if there not in (None, here))
    return found


def circles_of_rooms(sources: dict[str, Imports]) -> list[tuple[str, ...]]:
    """Folders that import one another in a circle, in whichever folder they lie."""
    parts = [name.split(".") for name in sources]
    folders = sorted({".".join(path[:depth]) for path in parts for depth in range(1, len(path))})
    return sorted({circle for folder in folders for circle in circles_among(rooms_of(sources, folder))})


def at_load(tree: ast.Module) -> Imports:
    """Each import that is not inside a function."""
    inside = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for inner in ast.walk(node)
    }
    return tuple(node for node in imports_in(tree) if id(node) not in inside)


def test_no_folders_import_one_another_in_a_circle() -> None:
    names = {dotted(path): at_load(parsed(path)) for path in MODULES if path != PACKAGE / "__init__.py"}
    assert circles_of_rooms(names) == []


def test_a_circle_of_folders_is_seen_though_no_modules_make_one() -> None:
    texts = {
        "tracer.a.first": "from tracer.b.first import B",
        "tracer.b.first": "",
        "tracer.b.second": "from tracer.a.second import A",
        "tracer.a.second": "",
    }
    sources = {name: at_load(ast.parse(text)) for name, text in texts.items()}
    assert circles_among(imports_of(sources)) == []
    assert circles_of_rooms(sources) == [("a", "b")]
    texts["tracer.b.second"] = "def later():\n    from tracer.a.second import A"
    assert circles_of_rooms({name: at_load(ast.parse(text)) for name, text in texts.items()}) == []


def test_tests_import_nothing_of_the_benchmarks() -> None:
    found = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name in re.findall(
            r"^\s*(?:from|import) (benchmarks\b[\w.]*)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    ]
    assert not found, "\n".join(found)


def test_few_modules_lie_loose_at_the_top() -> None:
    loose = [path.stem for path in PACKAGE.glob("*.py") if path.stem not in ("__init__", "__main__")]
    assert len(loose) <= LOOSE


def test_every_module_has_a_telling_name() -> None:
    assert [name_of(module) for module in MODULES if {module.stem, module.parent.name} & VAGUE] == []


def offered_by(package: Path) -> set[str]:
    """What a package's ``__init__`` offers: importing a submodule of that name would hide it."""
    names: set[str] = set()
    for node in parsed(package / "__init__.py").body:
        if isinstance(node, ast.Assign) and "__all__" in map(ast.unparse, node.targets):
            names |= set(ast.literal_eval(node.value))
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_"):
            names.add(node.name)
    return names


def test_no_module_hides_a_public_name() -> None:
    for package in sorted({module.parent for module in MODULES if module.stem == "__init__"}):
        inside = {path.stem for path in package.glob("*.py")} | {path.parent.name for path in package.glob("*/*.py")}
        assert not inside & offered_by(package), package


def loaded_by(statement: str) -> set[str]:
    """Top-level modules in ``sys.modules`` of a new process after ``statement``."""
    code = f"import sys\n{statement}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


HEAVY = {"torch", "pandas", "numpy", "jinja2", "rich", "itables"}


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import tracer; dir(tracer)", HEAVY | {"msgspec", "click", "packaging"}),
        ("from tracer import Trace, judge, DeterminismTracer, Report, Finding, Tally", HEAVY),
        ("from tracer import compare_draws, reproducible", HEAVY),
        ("import tracer.cli.main", HEAVY | {"msgspec", "packaging"}),
        ("import tracer.runner", HEAVY),
        ("import tracer.report", HEAVY),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_used(statement: str, unwanted: set[str]) -> None:
    assert not loaded_by(statement) & unwanted


def test_the_top_of_the_repository_holds_only_what_the_design_names() -> None:
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT)
    if listed.returncode:
        pytest.skip("not a git checkout")
    top = {Path(path).parts[0] for path in listed.stdout.splitlines()}
    assert top <= {
        *(".ci", ".github", ".gitignore", "benchmarks", "docs", "templates", "tests", "tracer"),
        *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md"),
        *("constraints.txt", "mkdocs.yml", "pyproject.toml"),
    }


def rooms_of_contributing() -> dict[str, int | None]:
    """Path below ``tracer/`` -> floor, as CONTRIBUTING's map has them; a room within a room has no floor of its own."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"(?ms)^```text\ntracer/\n(.*?)^```", text)
    rooms: dict[str, int | None] = {}
    outer = ""
    for line in shown.splitlines():
        floor, name = re.fullmatch(r"(?: +(\d+)  |       )(\S+?)/? +\S.*", line).groups()  # type: ignore[union-attr]
        if floor:
            outer, rooms[name] = name, int(floor)
        else:
            rooms[f"{outer}/{name}"] = None
    return rooms


def test_contributings_map_names_every_room_with_the_floor_that_is_tested_and_nothing_else() -> None:
    folders = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*") if path.is_dir()}
    there = {path.as_posix() for path in folders if not {"__pycache__", "_templates"} & set(path.parts)}
    there |= {path.name for path in PACKAGE.glob("*.py")}
    rooms = rooms_of_contributing()
    assert set(rooms) == there
    assert {name.removesuffix(".py"): floor for name, floor in rooms.items() if floor is not None} == FLOORS
