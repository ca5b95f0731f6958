"""Which expressions of a program give texts for sure, read in its text: what is not certain counts as something else.

Followed through assignments, loops, comprehensions, functions of the same file and the places that call them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from tracer.recording.program_text.source_tree import its_part_of, own_nodes, parameters_of, spellings_of, stores_of

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef

#: What gives several texts, and what gives one, whatever it is called on.
_GIVES_TEXTS = frozenset({"split", "rsplit", "splitlines", "listdir", "findall"})
_GIVES_TEXT = frozenset(
    {
        *("str", "lower", "upper", "strip", "lstrip", "rstrip", "replace", "decode", "basename", "title", "casefold"),
        *("join", "format", "read_text", "hexdigest", "removesuffix", "removeprefix", "capitalize"),
    }
)
#: Hand on what they are given, in whichever order.
_PASSES_ON = frozenset({"list", "tuple", "sorted", "set", "frozenset", "reversed", "iter", "fromkeys"})
_SET_METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
_ADDS_ONE, _ADDS_SEVERAL = "add", "update"
#: What a model gives: objects, which are hashed by their addresses.
_GIVES_OBJECTS = frozenset({"parameters", "modules", "children", "buffers"})
_GIVES_NAMED_OBJECTS = frozenset({"named_parameters", "named_modules", "named_children", "named_buffers"})
_DEPTH = 6


def name_of(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


class Texts:
    """What one file says."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self._scopes = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]

    # --- sets ---

    def is_set_of_texts(self, node: ast.AST, scope: Scope, depth: int = 0) -> bool:
        """Is it a set that holds texts?"""
        return any(self.is_text(one, scope, depth) for one in self._elements(node, scope, depth)) or any(
            self.gives_texts(several, scope, depth) for several in self._sources(node, scope, depth)
        )

    def is_set_of_objects(self, node: ast.AST, scope: Scope) -> bool:
        """Is it a set that holds parameters or modules, whose order is that of their addresses?"""
        return any(self._is_object(one, scope) for one in self._elements(node, scope, 0)) or any(
            self._gives_objects(several, scope) for several in self._sources(node, scope, 0)
        )

    def _elements(self, node: ast.AST, scope: Scope, depth: int) -> Iterator[ast.expr]:
        """Single elements of a set, as far as they are known."""
        for kind, value in self._parts(node, scope, depth):
            if kind == _ADDS_ONE:
                yield value

    def _sources(self, node: ast.AST, scope: Scope, depth: int) -> Iterator[ast.expr]:
        """What a set is filled from."""
        for kind, value in self._parts(node, scope, depth):
            if kind == _ADDS_SEVERAL:
                yield value

    def _parts(self, node: ast.AST, scope: Scope, depth: int) -> Iterator[tuple[str, ast.expr]]:
        if depth > _DEPTH:
            return
        if isinstance(node, ast.Set):
            yield from ((_ADDS_ONE, element) for element in node.elts)
        elif isinstance(node, ast.SetComp):
            yield _ADDS_ONE, node.elt
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)):
            yield from self._parts(node.left, scope, depth + 1)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            yield from self._parts_of_name(node, scope, depth)
        elif isinstance(node, ast.Call):
            name = name_of(node.func)
            if name in ("set", "frozenset"):
                yield from ((_ADDS_SEVERAL, argument) for argument in node.args[:1])
            elif name in _SET_METHODS and isinstance(node.func, ast.Attribute):
                yield from self._parts(node.func.value, scope, depth + 1)
                if name == "union" and self._is_set(node.func.value, scope, depth):
                    yield from ((_ADDS_SEVERAL, argument) for argument in node.args)
            else:
                for returned, inside in self._returned(node):
                    yield from self._parts(returned, inside, depth + 1)

    def _parts_of_name(
        self, node: ast.Name | ast.Attribute, scope: Scope, depth: int
    ) -> Iterator[tuple[str, ast.expr]]:
        """The parts of what a name, or an attribute, was set to, and of what was added to it."""
        stored = self._stores(node, scope)
        if not stored or not all(self._is_set(value, inside, depth + 1) for value, inside in stored):
            return
        for value, inside in stored:
            yield from self._parts(value, inside, depth + 1)
        spelt = ast.unparse(node)
        inside = self._scope_of_name(node, scope)
        for one in own_nodes(inside) if isinstance(node, ast.Name) else ast.walk(self.tree):
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.args:
                if one.func.attr in (_ADDS_ONE, _ADDS_SEVERAL) and spelt in spellings_of(one.func.value):
                    yield one.func.attr, one.args[0]
            elif isinstance(one, ast.AugAssign) and ast.unparse(one.target) == spelt:
                yield from self._parts(one.value, inside, depth + 1)

    def _is_set(self, node: ast.AST, scope: Scope, depth: int) -> bool:
        if depth > _DEPTH:
            return False
        if isinstance(node, (ast.Set, ast.SetComp)):
            return True
        if isinstance(node, ast.BinOp):
            return self._is_set(node.left, scope, depth + 1)
        if isinstance(node, (ast.Name, ast.Attribute)):
            stored = self._stores(node, scope)
            return bool(stored) and all(self._is_set(value, inside, depth + 1) for value, inside in stored)
        if isinstance(node, ast.Call):
            name = name_of(node.func)
            if name in ("set", "frozenset", "WeakSet"):
                return True
            if name in _SET_METHODS and isinstance(node.func, ast.Attribute):
                return self._is_set(node.func.value, scope, depth + 1)
            returned = self._returned(node)
            return bool(returned) and all(self._is_set(value, inside, depth + 1) for value, inside in returned)
        return False

    # --- texts ---

    def gives_texts(self, node: ast.AST, scope: Scope, depth: int = 0) -> bool:
        """Does walking it give texts?"""
        if depth > _DEPTH:
            return False
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return any(self.is_text(element, scope, depth + 1) for element in node.elts)
        if isinstance(node, ast.Dict):
            return any(key is not None and self.is_text(key, scope, depth + 1) for key in node.keys)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            return self.is_text(node.elt, scope, depth + 1)
        if isinstance(node, ast.DictComp):
            return self.is_text(node.key, scope, depth + 1)
        if isinstance(node, ast.Call):
            name = name_of(node.func)
            if name in _GIVES_TEXTS:
                return True
            if name == "keys" and isinstance(node.func, ast.Attribute):
                return self.gives_texts(node.func.value, scope, depth + 1)
            if name in _PASSES_ON and node.args:
                return self.gives_texts(node.args[0], scope, depth + 1)
            if any(self.gives_texts(value, inside, depth + 1) for value, inside in self._returned(node)):
                return True
        if isinstance(node, (ast.Name, ast.Attribute)):
            if self.is_set_of_texts(node, scope, depth + 1):
                return True
            stored = self._stores(node, scope)
            if stored and all(self.gives_texts(value, inside, depth + 1) for value, inside in stored):
                return True
            if any(self.gives_texts(value, inside, depth + 1) for value, inside in self._given(node, scope)):
                return True
        return self.is_text(node, scope, depth + 1)

    def is_text(self, node: ast.AST, scope: Scope, depth: int = 0) -> bool:
        """Is it a text?"""
        if depth > _DEPTH:
            return False
        if isinstance(node, ast.JoinedStr):
            return True
        if isinstance(node, ast.Constant):
            return isinstance(node.value, (str, bytes))
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
            return self.is_text(node.left, scope, depth + 1)
        if isinstance(node, ast.Call):
            if name_of(node.func) in _GIVES_TEXT:
                return True
            return any(self.is_text(value, inside, depth + 1) for value, inside in self._returned(node))
        if isinstance(node, ast.Name):
            walked = self._walked_as(node, scope)
            if walked is not None:
                return self._gives_at(*walked, scope, depth + 1)
            stored = self._stores(node, scope)
            if stored:
                return all(self.is_text(value, inside, depth + 1) for value, inside in stored)
            return any(self.is_text(value, inside, depth + 1) for value, inside in self._given(node, scope))
        return False

    def _gives_at(self, iterated: ast.expr, place: int | None, scope: Scope, depth: int) -> bool:
        """Does walking ``iterated`` give texts: each as a whole, or at a place of a row?"""
        if place is None:
            return self.gives_texts(iterated, scope, depth)
        if isinstance(iterated, ast.Call) and name_of(iterated.func) == "enumerate" and place == 1 and iterated.args:
            return self.gives_texts(iterated.args[0], scope, depth)
        if isinstance(iterated, ast.Call) and name_of(iterated.func) == "items" and place == 0:
            return isinstance(iterated.func, ast.Attribute) and self.gives_texts(iterated.func.value, scope, depth)
        if isinstance(iterated, ast.Name):
            stored = self._stores(iterated, scope)
            return len(stored) == 1 and self._gives_at(stored[0][0], place, stored[0][1], depth + 1)
        if isinstance(iterated, (ast.List, ast.Tuple)) and depth <= _DEPTH:
            rows = [row for row in iterated.elts if isinstance(row, (ast.Tuple, ast.List)) and len(row.elts) > place]
            return any(self.is_text(row.elts[place], scope, depth + 1) for row in rows)
        return False

    # --- objects ---

    def _is_object(self, node: ast.AST, scope: Scope) -> bool:
        if not isinstance(node, ast.Name):
            return False
        walked = self._walked_as(node, scope)
        if walked is None:
            return False
        iterated, place = walked
        if place is None:
            return self._gives_objects(iterated, scope)
        return place == 1 and isinstance(iterated, ast.Call) and name_of(iterated.func) in _GIVES_NAMED_OBJECTS

    def _gives_objects(self, node: ast.AST, scope: Scope) -> bool:
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self._is_object(node.elt, scope)
        if isinstance(node, ast.Call) and name_of(node.func) in _PASSES_ON and node.args:
            return self._gives_objects(node.args[0], scope)
        return isinstance(node, ast.Call) and not node.args and name_of(node.func) in _GIVES_OBJECTS

    # --- names ---

    def _stores(self, node: ast.Name | ast.Attribute, scope: Scope) -> list[tuple[ast.expr, Scope]]:
        """What a name or an attribute is plainly set to, and where; empty where something else sets it as well."""
        if isinstance(node, ast.Attribute):
            spelt = ast.unparse(node)
            return [
                (one.value, inside)
                for inside in (self.tree, *self._scopes)
                for one in own_nodes(inside)
                if isinstance(one, (ast.Assign, ast.AnnAssign)) and one.value is not None
                for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
                if isinstance(target, ast.Attribute) and ast.unparse(target) == spelt
            ]
        inside = self._scope_of_name(node, scope)
        found = [
            its_part_of(value, is_plain, inside, node.id)
            for value, is_plain in stores_of(inside, node.id)
            if is_plain or not self._is_augmented(inside, node.id, value)
        ]
        return [(value, inside) for value, _ in found] if all(is_plain for _, is_plain in found) else []

    @staticmethod
    def _is_augmented(scope: Scope, name: str, value: ast.expr) -> bool:
        return any(
            isinstance(one, ast.AugAssign) and one.value is value and getattr(one.target, "id", "") == name
            for one in own_nodes(scope)
        )

    def _scope_of_name(self, node: ast.AST, scope: Scope) -> Scope:
        name = getattr(node, "id", "")
        if isinstance(scope, ast.Module) or stores_of(scope, name) or name in parameters_of(scope):
            return scope
        return self.tree

    def _walked_as(self, node: ast.Name, scope: Scope) -> tuple[ast.expr, int | None] | None:
        """What a loop or a comprehension walks, where the name is its variable; with the place in a row."""
        for one in own_nodes(scope):
            loops: list[Any] = []
            if isinstance(one, (ast.For, ast.AsyncFor)):
                loops = [one]
            elif isinstance(one, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
                loops = one.generators if any(part is node for part in ast.walk(one)) else []
            for loop in loops:
                if isinstance(loop.target, ast.Name) and loop.target.id == node.id:
                    return loop.iter, None
                if isinstance(loop.target, ast.Tuple):
                    for place, part in enumerate(loop.target.elts):
                        if isinstance(part, ast.Name) and part.id == node.id:
                            return loop.iter, place
        return None

    def _returned(self, node: ast.Call) -> list[tuple[ast.expr, Scope]]:
        """What a function of this file returns."""
        if not isinstance(node.func, ast.Name):
            return []
        inside = next((scope for scope in self._scopes if scope.name == name_of(node.func)), None)
        if inside is None:
            return []
        returns = (one.value for one in own_nodes(inside) if isinstance(one, ast.Return))
        return [(value, inside) for value in returns if value is not None]

    def _given(self, node: ast.AST, scope: Scope) -> list[tuple[ast.expr, Scope]]:
        """What calls in this file hand to the function for its parameter."""
        if not isinstance(node, ast.Name) or isinstance(scope, ast.Module):
            return []
        names = parameters_of(scope)
        if node.id not in names or stores_of(scope, node.id):
            return []
        found: list[tuple[ast.expr, Scope]] = []
        for inside in (self.tree, *self._scopes):
            for one in own_nodes(inside):
                if isinstance(one, ast.Call) and name_of(one.func) == scope.name and isinstance(one.func, ast.Name):
                    place = names.index(node.id)
                    keyed = [keyword.value for keyword in one.keywords if keyword.arg == node.id]
                    found += [(value, inside) for value in (keyed or one.args[place : place + 1])]
        return found
