"""What a trace says that a call was given is taken as far as torch has it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.build import tensor
from tracer.one_call.data import Tensor, TorchName, Unknown, has_unknown, program_arguments
from tracer.trace.records import Argument, DeviceType, NotKept, Number, TensorForm, TorchWord, spelled


@pytest.mark.parametrize(
    ("given", "text", "value"),
    [
        (tensor("float32", 10, 4), "float32[10, 4]", Tensor("float32", (10, 4))),
        (tensor("int64"), "int64[()]", Tensor("int64", ())),
        (tensor("float32", 3, stride=(0,)), "float32[3][0]", Tensor("float32", (3,), (0,))),
        (tensor("bool", 3, layout="sparse_coo"), "bool[3].sparse_coo", Tensor("bool", (3,), layout="sparse_coo")),
        (tensor("bool", 4, device="cuda"), "bool[4].cuda", Tensor("bool", (4,), device="cuda")),
        (
            TensorForm("float32", (None, 4), (4, 1)),
            "float32[None, 4][4, 1]",
            Tensor("float32", (16, 4), is_unfixed=True),
        ),
        ([None, tensor("int64", 2)], "[None, int64[2]]", [None, Tensor("int64", (2,))]),
        (-3, "-3", -3),
        (Number("-inf"), "-inf", float("-inf")),
        (Number("(1+2j)"), "(1+2j)", 1 + 2j),
        (Number(str(2**70)), str(2**70), 2**70),
        (TorchWord("float64"), "torch.float64", TorchName("torch.float64")),
        (DeviceType("cpu"), "torch.device('cpu')", TorchName("torch.device('cpu')")),
        ("sum", "'sum'", "sum"),
        (NotKept(), "...", Unknown()),
    ],
)
def test_each_kind_of_argument_comes_back_from_a_file(given: Argument, text: str, value: Any) -> None:
    arguments = {"first": given, "from": True}
    assert msgspec.json.decode(msgspec.json.encode(arguments), type=dict[str, Argument]) == arguments
    assert spelled(arguments) == f"first={text}, from=True"
    assert program_arguments(arguments) == {"first": value, "from": True}


def test_what_was_not_kept_is_found_in_lists_too() -> None:
    assert has_unknown(program_arguments({"many": [tensor("float32", 2), NotKept()]})["many"])
    assert not has_unknown(program_arguments({"many": [tensor("float32", 2), 3]})["many"])
