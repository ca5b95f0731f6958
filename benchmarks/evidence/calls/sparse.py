"""Sparse layouts, and tensors whose rows are nested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.evidence.calls.making import Call, Calls, leaf, made
from benchmarks.evidence.made import FIRST, FOURTH, SECOND, SIXTH, THIRD


@made(FIRST)
def sparse() -> Iterator[Call]:
    where, values = torch.tensor([[0, 1, 1, 3], [2, 0, 0, 1]]), torch.tensor([1.0, 2.0, 3.0, 4.0])
    yield "coo to_dense", _dense, (values, where)
    yield "coo coalesce", _coalesced, (values, where)
    yield "dense plus coo", _plus, (values, where, torch.zeros(4, 3))
    yield "coo times dense", _times, (values, where, torch.rand(3, 5))
    yield "coo sum", _summed, (values, where)
    yield "dense to coo", torch.Tensor.to_sparse, (torch.eye(4),)
    yield "dense to csr", torch.Tensor.to_sparse_csr, (torch.eye(4),)
    yield "csr times dense", _csr_times, (torch.eye(4), torch.rand(4, 2))


def _coo_4x3(values: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    return torch.sparse_coo_tensor(where, values, (4, 3))


def _dense(values: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    return _coo_4x3(values, where).to_dense()


def _coalesced(values: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    return _coo_4x3(values, where).coalesce().values()


def _plus(values: torch.Tensor, where: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    return dense.add_(_coo_4x3(values, where))


def _times(values: torch.Tensor, where: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    product: torch.Tensor = torch.sparse.mm(_coo_4x3(values, where), dense)
    return product


def _summed(values: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    return torch.sparse.sum(_coo_4x3(values, where))


def _csr_times(dense: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    product: torch.Tensor = dense.to_sparse_csr() @ other
    return product


@made(SECOND)
def sparse_second() -> Iterator[Call]:
    values, where = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([[0, 0, 2], [1, 1, 0]])
    dense = torch.rand(3, 3)
    yield "sparse added", lambda v, i, d: d + _coo_3x3(v, i), (values, where, dense)
    yield "sparse added coalesced", lambda v, i, d: d + _coo_3x3(v, i).coalesce(), (values, where, dense)
    yield "sparse subtracted", lambda v, i, d: d - _coo_3x3(v, i), (values, where, dense)
    yield "sparse matmul", lambda v, i, d: _coo_3x3(v, i) @ d, (values, where, dense)
    yield "sparse addmm", lambda v, i, d: torch.sparse.addmm(d, _coo_3x3(v, i), d), (values, where, dense)
    yield (
        "sparse bmm",
        lambda v, i, d: torch.bmm(_coo_3x3(v, i).unsqueeze(0), d.unsqueeze(0)),
        (values, where, dense),
    )
    yield "sparse mv", lambda v, i, d: _coo_3x3(v, i) @ d[0], (values, where, dense)
    yield "sparse times dense", lambda v, i, d: (_coo_3x3(v, i).coalesce() * d).to_dense(), (values, where, dense)
    yield (
        "sparse wanted",
        lambda v, i, d: torch.sparse.mm(_coo_3x3(v, i), d),
        (values.clone().requires_grad_(), where, dense),
    )
    yield "sparse sum dim", lambda v, i: torch.sparse.sum(_coo_3x3(v, i), dim=0).to_dense(), (values, where)
    yield "sparse to_dense whole", lambda v, i: _coo_3x3(v, i).to_dense(), (values.long(), where)
    yield "sparse index_select", lambda v, i: _coo_3x3(v, i).index_select(0, i[0, :2]).to_dense(), (values, where)
    yield "sparse transposed", lambda v, i: _coo_3x3(v, i).t().to_dense(), (values, where)
    yield (
        "sparse foreach",
        lambda v, i, d: torch._foreach_add([d, d], [d, _coo_3x3(v, i)]),
        (values, where, dense),
    )


def _coo_3x3(values: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    return torch.sparse_coo_tensor(where, values, (3, 3), check_invariants=False)


@made(THIRD)
def sparse_third() -> Iterator[Call]:
    at, values, dense = torch.tensor([[0, 2, 2], [1, 0, 0]]), leaf(3), leaf(3, 2)
    yield "sparse to dense", lambda v, at: _coo_3x3(v, at).to_dense(), (values, at)
    yield "sparse to dense frozen", lambda v, at: _coo_3x3(v, at).to_dense(), (values.detach(), at)
    yield "sparse summed", lambda v, at: _coo_3x3(v, at).coalesce().values(), (values, at)
    yield "sparse plus dense", lambda v, at, y: y + _coo_3x3(v, at), (values.detach(), at, torch.ones(3, 3))
    yield (
        "sparse plus sparse",
        lambda v, at: (_coo_3x3(v, at) + _coo_3x3(v * 2, at)).to_dense(),
        (values, at),
    )
    yield "sparse times dense", lambda v, at, y: torch.sparse.mm(_coo_3x3(v, at), y), (values, at, dense)
    yield "sparse times dense frozen", lambda v, at, y: _coo_3x3(v, at) @ y, (values.detach(), at, dense.detach())
    yield "sparse addmm", lambda v, at, y: torch.sparse.addmm(y, _coo_3x3(v, at), y), (values, at, dense)
    yield "sparse times vector", lambda v, at, y: _coo_3x3(v, at) @ y[:, 0], (values.detach(), at, dense.detach())
    yield "sparse total", lambda v, at: torch.sparse.sum(_coo_3x3(v, at)), (values, at)
    yield "sparse total of rows", lambda v, at: torch.sparse.sum(_coo_3x3(v, at), 1).to_dense(), (values, at)
    yield "sparse scaled", lambda v, at: (_coo_3x3(v, at) * 3).to_dense(), (values, at)
    yield "sparse rows of numbers", _hybrid, (leaf(3, 2), at)
    yield "sparse rows", lambda v, y: _csr(v) @ y, (values.detach(), dense.detach())
    yield "sparse rows of slopes", lambda v, y: torch.mm(_csr(v), y), (values.detach(), dense)
    yield "sparse rows to dense", lambda v: _csr(v).to_dense(), (values,)
    yield "sparse rows times vector", lambda v, y: torch.mv(_csr(v), y[:, 0]), (values.detach(), dense.detach())
    yield (
        "sparse in place",
        lambda v, at, y: y.clone().add_(_coo_3x3(v, at), alpha=0.5),
        (values.detach(), at, torch.ones(3, 3)),
    )


def _hybrid(values: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return torch.sparse_coo_tensor(at[:1], values, (4, 2), check_invariants=False).to_dense()


def _csr(values: torch.Tensor) -> torch.Tensor:
    rows, columns = torch.tensor([0, 1, 1, 3]), torch.tensor([1, 0, 2])
    here = values.device
    return torch.sparse_csr_tensor(rows.to(here), columns.to(here), values, (3, 3), check_invariants=False)


@made(THIRD)
def nested() -> Iterator[Call]:
    x, y = leaf(2, 3), leaf(4, 3)
    yield "nested padded", lambda *rows: torch.nested.as_nested_tensor(list(rows)).to_padded_tensor(0.0), (x, y)
    yield "nested total", lambda *rows: torch.nested.as_nested_tensor(list(rows)).values().sum(), (x, y)
    yield "nested linear", _nested_linear, (x, y, leaf(5, 3))
    yield "nested jagged", _jagged, (x, y)


def _nested_linear(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> Any:
    return F.linear(torch.nested.as_nested_tensor([x, y]), weight).to_padded_tensor(0.0)


def _jagged(x: torch.Tensor, y: torch.Tensor) -> Any:
    return (torch.nested.as_nested_tensor([x, y], layout=torch.jagged) * 2).values()


def _coo_4x4(values: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return torch.sparse_coo_tensor(i, values, (4, 4))


@made(FOURTH)
def sparse_fourth() -> Iterator[Call]:
    values, i, dense = leaf(4), torch.tensor([[0, 3, 3, 1], [1, 2, 2, 0]]), leaf(4, 4)
    given = (values, i, dense)
    yield "thin brought together", lambda v, i, d: _coo_4x4(v, i).coalesce().values(), given
    yield "thin plus dense", lambda v, i, d: d + _coo_4x4(v, i), given
    yield "thin plus dense together", lambda v, i, d: d + _coo_4x4(v, i).coalesce(), given
    yield "thin in place", lambda v, i, d: d.detach().clone().add_(_coo_4x4(v.detach(), i), alpha=0.5), given
    yield "thin dense", lambda v, i, d: _coo_4x4(v, i).to_dense(), given
    yield "thin dense together", lambda v, i, d: _coo_4x4(v, i).coalesce().to_dense(), given
    yield "thin dense complex", lambda v, i, d: _coo_4x4(v.detach() * 1j, i).to_dense(), given
    yield "thin dense ints", lambda v, i, d: _coo_4x4(v.detach().long(), i).to_dense(), given
    yield "thin times", lambda v, i, d: torch.sparse.mm(_coo_4x4(v, i), d), given
    yield "thin times frozen", lambda v, i, d: torch.sparse.mm(_coo_4x4(v.detach(), i), d.detach()), given
    yield "thin times double", lambda v, i, d: _coo_4x4(v.double(), i) @ d.double(), given
    yield "thin times thin", lambda v, i, d: torch.sparse.mm(_coo_4x4(v, i), _coo_4x4(v, i)).to_dense(), given
    yield "thin masked", lambda v, i, d: d.sparse_mask(_coo_4x4(v.detach(), i).coalesce()).to_dense(), given
    yield "thin sampled", lambda v, i, d: torch.sparse.sum(d * _coo_4x4(v, i).coalesce()), given
    yield "thin softmax", lambda v, i, d: torch.sparse.softmax(_coo_4x4(v, i), 1).to_dense(), given
    yield (
        "thin log softmax",
        lambda v, i, d: torch.sparse.log_softmax(_coo_4x4(v, i).coalesce(), 1).to_dense(),
        given,
    )
    yield "thin turned", lambda v, i, d: _coo_4x4(v, i).t() @ d, given
    yield "thin joined", lambda v, i, d: torch.cat([_coo_4x4(v, i), _coo_4x4(v, i)]).to_dense(), given
    yield "thin stacked", lambda v, i, d: torch.stack([_coo_4x4(v, i), _coo_4x4(v, i)]).to_dense(), given
    yield "thin taken", lambda v, i, d: _coo_4x4(v, i).index_select(0, i[0]).to_dense(), given
    yield "thin narrowed", lambda v, i, d: _coo_4x4(v.detach(), i).narrow(0, 1, 2).to_dense(), given
    yield "thin from dense", lambda v, i, d: d.relu().to_sparse().to_dense(), given
    yield "thin hybrid", lambda v, i, d: torch.sparse_coo_tensor(i[:1], d, (4, 4)).to_dense(), given
    yield "thin hybrid summed", lambda v, i, d: torch.sparse_coo_tensor(i[:1], d, (4, 4)).coalesce().values(), given
    yield "thin square", lambda v, i, d: _coo_4x4(v.detach(), i).pow(2).to_dense(), given
    yield "thin addmm", lambda v, i, d: torch.addmm(d, _coo_4x4(v.detach(), i).coalesce(), d), given
    yield "thin rows summed", lambda v, i, d: torch.sparse.sum(_coo_4x4(v, i), 0).to_dense(), given
    yield "thin norm", lambda v, i, d: _coo_4x4(v, i).coalesce().norm(), given
    yield (
        "thin batch",
        lambda v, i, d: torch.bmm(torch.stack([_coo_4x4(v.detach(), i)] * 2), d.expand(2, 4, 4)),
        given,
    )


@made(FOURTH)
def compressed() -> Iterator[Call]:
    dense = (leaf(4, 4).detach() * (torch.rand(4, 4) > 0.4)).requires_grad_()
    other = leaf(4, 3)
    for name, make in (
        ("rows", lambda x: x.to_sparse_csr()),
        ("columns", lambda x: x.to_sparse_csc()),
        ("blocks", lambda x: x.to_sparse_bsr((2, 2))),
    ):
        yield f"pressed {name} times", lambda x, y, make=make: make(x.detach()) @ y, (dense, other)
        yield f"pressed {name} dense", lambda x, make=make: make(x).to_dense(), (dense,)
        yield f"pressed {name} vector", lambda x, y, make=make: make(x.detach()) @ y[:, 0], (dense, other)
        yield f"pressed {name} to coo", lambda x, make=make: make(x.detach()).to_sparse_coo().to_dense(), (dense,)
    yield "pressed plus", lambda x: (x.detach().to_sparse_csr() + x.detach().to_sparse_csr()).to_dense(), (dense,)
    yield "pressed plus dense", lambda x: x + x.detach().to_sparse_csr(), (dense,)
    yield (
        "pressed summed",
        lambda x: torch.sparse.sum(x.detach().to_sparse_csr(), 1, dtype=torch.float32).to_dense(),
        (dense,),
    )
    yield (
        "pressed sampled",
        lambda x, y: torch.sparse.sampled_addmm(x.detach().to_sparse_csr(), y, y.t()).to_dense(),
        (
            dense,
            other.detach(),
        ),
    )
    yield "pressed reduced", lambda x, y: torch.sparse.mm(x.detach().to_sparse_csr(), y, "mean"), (dense, other)


@made(FOURTH)
def nested_fourth() -> Iterator[Call]:
    one, two = leaf(2, 4), leaf(3, 4)

    def jagged(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nested.as_nested_tensor([a, b], layout=torch.jagged)

    yield "ragged product", lambda a, b: (jagged(a, b) @ a.detach().t()).values(), (one, two)
    yield "ragged padded", lambda a, b: jagged(a, b).to_padded_tensor(0.0), (one, two)
    yield "ragged summed", lambda a, b: jagged(a, b).sum(1), (one, two)
    yield "ragged softmax", lambda a, b: torch.softmax(jagged(a, b), -1).values(), (one, two)
    yield "ragged normed", lambda a, b: torch.nn.functional.layer_norm(jagged(a, b), (4,)).values(), (one, two)
    yield (
        "ragged strided",
        lambda a, b: torch.nested.nested_tensor([a.detach(), b.detach()]).to_padded_tensor(1.0),
        (one, two),
    )


@made(SIXTH)
def sparse_sixth() -> Iterator[Call]:
    dense, rows = leaf(5, 4), leaf(4, 3)
    places = torch.tensor([[0, 1, 1, 4], [2, 0, 0, 3]])
    values = leaf(4)

    def coo(v: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.sparse_coo_tensor(i, v, (5, 4))

    made: Calls = {
        "made dense": (lambda v, i: coo(v, i).to_dense(), (values, places)),
        "made dense together": (lambda v, i: coo(v, i).coalesce().to_dense(), (values, places)),
        "brought together": (lambda v, i: coo(v, i).coalesce().values(), (values, places)),
        "product": (lambda v, i, b: torch.sparse.mm(coo(v, i), b), (values, places, rows)),
        "product at": (lambda v, i, b: coo(v, i) @ b, (values, places, rows)),
        "product frozen": (lambda v, i, b: torch.sparse.mm(coo(v, i), b), (values.detach(), places, rows.detach())),
        "product vector": (lambda v, i, b: coo(v, i) @ b[:, 0], (values.detach(), places, rows.detach())),
        "product onto": (
            lambda v, i, b, c: torch.sparse.addmm(c, coo(v, i), b),
            (values, places, rows, leaf(5, 3)),
        ),
        "onto dense": (lambda v, i, d: d + coo(v, i), (values, places, dense)),
        "onto dense in place": (lambda v, i, d: d.clone().add_(coo(v, i)), (values.detach(), places, dense.detach())),
        "onto sparse": (lambda v, i: (coo(v, i) + coo(v * 2, i)).to_dense(), (values, places)),
        "times number": (lambda v, i: (coo(v, i) * 2).to_dense(), (values, places)),
        "times dense": (lambda v, i, d: (coo(v, i).coalesce() * d).to_dense(), (values, places, dense)),
        "summed": (lambda v, i: torch.sparse.sum(coo(v, i)), (values, places)),
        "summed rows": (lambda v, i: torch.sparse.sum(coo(v, i), 1).to_dense(), (values, places)),
        "softmax": (lambda v, i: torch.sparse.softmax(coo(v, i), 1).to_dense(), (values, places)),
        "from dense": (lambda d: d.relu().to_sparse().to_dense(), (dense,)),
        "masked": (lambda v, i, d: d.sparse_mask(coo(v, i).coalesce()).to_dense(), (values.detach(), places, dense)),
        "turned": (lambda v, i: coo(v, i).t().to_dense(), (values, places)),
        "selected": (lambda v, i, d: coo(v, i).index_select(0, i[0]).to_dense(), (values.detach(), places, dense)),
    }
    for name, (function, args) in made.items():
        yield f"thinly {name}", function, args
        if name in {"made dense", "product", "onto dense in place"}:
            yield (
                f"thinly {name} double",
                function,
                tuple(
                    one.detach().double().requires_grad_(one.requires_grad) if one.is_floating_point() else one
                    for one in args
                ),
            )
    yield "thinly rows made dense", lambda d: d.to_sparse_csr().to_dense(), (dense.detach(),)
    yield "thinly rows product", lambda d, b: d.to_sparse_csr() @ b, (dense.detach(), rows.detach())
    yield "thinly rows product trained", lambda d, b: d.to_sparse_csr() @ b, (dense.detach(), rows)
    yield "thinly rows vector", lambda d, b: d.to_sparse_csr() @ b[:, 0], (dense.detach(), rows.detach())
    yield "thinly adam", _sparse_adam, (torch.randint(0, 6, (8,)),)
    yield "thinly sgd", _sparse_sgd, (torch.randint(0, 6, (8,)),)


def _sparse_adam(i: torch.Tensor) -> torch.Tensor:
    layer = torch.nn.Embedding(6, 3, sparse=True).to(i.device)
    optimizer = torch.optim.SparseAdam(list(layer.parameters()))
    layer(i).pow(2).sum().backward()
    optimizer.step()
    return layer.weight.detach()


def _sparse_sgd(i: torch.Tensor) -> torch.Tensor:
    layer = torch.nn.Embedding(6, 3, sparse=True).to(i.device)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    layer(i).pow(2).sum().backward()
    optimizer.step()
    return layer.weight.detach()


@made(SIXTH)
def nested_sixth() -> Iterator[Call]:
    a, b, weight = leaf(2, 4), leaf(3, 4), leaf(4, 4)

    def ragged(*parts: torch.Tensor) -> torch.Tensor:
        return torch.nested.as_nested_tensor(list(parts))

    def jagged(*parts: torch.Tensor) -> torch.Tensor:
        return torch.nested.as_nested_tensor(list(parts), layout=torch.jagged)

    for name, make in (("ragged", ragged), ("jagged", jagged)):
        yield f"{name} linear", lambda a, b, w, m=make: F.linear(m(a, b), w).values().sum(0), (a, b, weight)
        yield f"{name} activated", lambda a, b, m=make: m(a, b).relu().values(), (a, b)
        yield f"{name} softmax", lambda a, b, m=make: m(a, b).softmax(-1).values(), (a, b)
        yield (
            f"{name} normed",
            lambda a, b, m=make: F.layer_norm(m(a, b), (4,), a[0].detach(), a[1].detach()).values(),
            (a, b),
        )
        yield f"{name} padded", lambda a, b, m=make: torch.nested.to_padded_tensor(m(a, b), 0.0), (a, b)
