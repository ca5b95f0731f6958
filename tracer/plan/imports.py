"""Lines to paste that run in the order of the plan: each module is imported once, by the first that needs it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

#: Modules that the plan's own lines speak of by name.
_SPOKEN_OF = ("os", "random", "numpy", "torch")


def importing_once(codes: Iterable[str]) -> Iterator[str]:
    """``codes`` with the imports that they lack, and without those that stand in an earlier one.

    What is no Python, such as a shell's ``export``, and what imports by other forms than ``import name`` stays as is.
    """
    seen: set[str] = set()
    for code in codes:
        try:
            tree = ast.parse(code)
        except SyntaxError:
            yield code
            continue
        imports = [node for node in tree.body if isinstance(node, ast.Import)]
        plain = {node.lineno: node.names[0].name for node in imports if _is_plain(node)}
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        bound = {name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in map(_bound_by, node.names)}
        lacking = [f"import {name}" for name in _SPOKEN_OF if name in used - bound - seen]
        kept = [line for number, line in enumerate(code.splitlines(), 1) if plain.get(number) not in seen]
        yield _joined(lacking, "\n".join(kept).strip())
        seen |= (used & set(_SPOKEN_OF)) | set(plain.values())


def _is_plain(node: ast.Import) -> bool:
    return len(node.names) == 1 and node.names[0].asname is None


def _bound_by(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _joined(imports: list[str], code: str) -> str:
    between = "\n" if code.startswith(("import ", "from ")) else "\n\n"
    return "\n".join(imports) + between + code if imports else code
