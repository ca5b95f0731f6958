"""Declares each setting once, for every part that reads it. Imports no torch.

Their effects are described in ``environment.toml``; a setting that only a row there names needs no declaration.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

import msgspec

from tracer.names import DeterministicMode, Settings
from tracer.plain import literal
from tracer.trace.records import Environment, FactValue

BOOL = (False, True)

MODE = "deterministic_mode"
FORWARD = "forward."
"""Leads a setting's key where its value is meant under which the forward of a backward call ran."""
INDUCTOR_FLAG = "torch._inductor.config.deterministic"
"""Inductor's own flag, which deterministic mode sets since torch 2.10."""
FILL = "fill_uninitialized_memory"
CUBLAS_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"

#: Configurations of cuBLAS that torch accepts as deterministic; the first is the usual one.
CUBLAS_WORKSPACES = (":4096:8", ":16:8")
#: torch's page of ``nn.LSTM`` names it besides ``:16:8``; torch's check of matrix products does not accept it.
_RECURRENT_WORKSPACE = ":4096:2"


class PlanOrder(IntEnum):
    """Position of a setting in a plan: those that settle most come first."""

    MODE = 1
    WORKSPACE = 2
    AUTOTUNE = 3
    OTHER = 4


class SettingCondition(msgspec.Struct, frozen=True):
    """A condition on a setting."""

    key: str
    """Its key in conditions."""
    domain: tuple[FactValue, ...]
    held_by: Callable[[Environment], FactValue | None]
    """Its value in a process; ``None`` if it was not recorded."""
    wanted: FactValue | None = None
    """The value that a plan tries to reach; ``None`` if no program can set it."""


class Setting(msgspec.Struct, frozen=True):
    """One setting of a process."""

    key: str
    """Its name in traces, targets and plans: a field of ``Environment``, a variable, or torch's dotted name."""
    written: str = ""
    """Its name in users' code and in events; empty if it is the key."""
    label: str = ""
    """Its name in the report's table of the environment; empty if it is the same."""
    values: tuple[FactValue, ...] | type = BOOL
    """Every value that it can have; ``int`` for a number above 0, ``str`` for a text."""
    default: FactValue | None = None
    """torch's default; ``None`` if it depends on the machine."""
    read: str = ""
    """The dotted name that reads it, with ``()`` after a function; empty for a variable."""
    said: Mapping[FactValue, FactValue] = {}
    """Converts the result of ``read`` to the value, if it is not the value itself."""
    watched: tuple[str, str] = ("", "")
    """The setter and getter in ``torch._C`` (torch 2.4 to 2.13); empty if changes are not observed."""
    made_by: str = ""
    """The dotted name that a program assigns to, with ``()`` after a function; empty for a variable."""
    arguments: Mapping[FactValue, tuple[tuple[Any, ...], dict[str, Any]]] = {}
    """The arguments of ``made_by`` for each value, if it is a function that takes more than the value."""
    condition: SettingCondition | None = None
    chosen_in_forward: bool = False
    """Whether torch chooses the kernel of some backward by it as the forward runs."""
    wanted: FactValue | None = None
    """The value to try for a call that varies or raises; ``None`` to try none."""
    title: str = ""
    """The plan's words for the change; empty for ``Set ... to ...``."""
    where: str = ""
    """The place of the line, if a row does not say it."""
    place: PlanOrder = PlanOrder.OTHER

    @property
    def name(self) -> str:
        """Its name as users write it."""
        return self.written or self.key

    @property
    def is_field(self) -> bool:
        """Whether it is a field of ``Environment``."""
        return self.key in Environment.__struct_fields__

    @property
    def is_variable(self) -> bool:
        """Whether it is an environment variable."""
        return not self.read

    def line(self, value: FactValue) -> str:
        """The line of a program that sets it to ``value``."""
        if self.is_variable:
            return variable_line(self.key, value)
        if not self.made_by.endswith("()"):
            return f"{self.made_by} = {value!r}"
        positional, named = self.arguments.get(value, ((value,), {}))
        arguments = [*map(repr, positional), *(f"{name}={what!r}" for name, what in named.items())]
        return f"{self.made_by[:-2]}({', '.join(arguments)})"

    def fault(self, value: FactValue) -> str:
        """Return the fault of ``value``: what it would have to be; empty if it is valid."""
        if self.values is int:
            is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
            return "" if is_count else "a number above 0"
        if self.values is str:
            return "" if isinstance(value, str) else "text, as environment variables are"
        if self.values == BOOL or isinstance(self.values, type):
            return "" if isinstance(value, bool) else "True or False"
        return "" if value in self.values else f"one of {', '.join(map(str, self.values))}"


#: Variables that Python reads at its start, before a script could set them.
READ_BY_PYTHON = ("PYTHONHASHSEED",)


def variable_line(name: str, value: FactValue) -> str:
    """The line that sets an environment variable: of a shell if Python reads it at its start, else of a program."""
    if name in READ_BY_PYTHON:
        return f"export {name}={shlex.quote(str(value))}"
    return f"os.environ[{literal(name)}] = {literal(str(value))}"


def held(key: str, environment: Environment) -> FactValue | None:
    """The recorded value of a setting: a field's, a variable's, or that of a dotted name."""
    if key in Environment.__struct_fields__:
        value = getattr(environment, key)
        return value if value is None or isinstance(value, (bool, int)) else str(value)
    return (environment.settings if "." in key else environment.variables).get(key)


def itself(key: str, domain: tuple[FactValue, ...] = BOOL, wanted: FactValue | None = None) -> SettingCondition:
    """A condition on the setting's own value."""
    return SettingCondition(key, domain, lambda environment: held(key, environment), wanted)


def _workspace(environment: Environment) -> str:
    """Return what cuBLAS's workspace makes deterministic: everything, only recurrent layers, or nothing."""
    value = environment.variables.get(CUBLAS_VARIABLE)
    return "set" if value in CUBLAS_WORKSPACES else "recurrent" if value == _RECURRENT_WORKSPACE else "unset"


def _nvls(environment: Environment) -> str:
    """Whether NCCL may reduce in the switch. An algorithm list that differs by collective is not parsed."""
    listed = environment.variables.get("NCCL_ALGO", "").strip().lower()
    if environment.variables.get("NCCL_NVLS_ENABLE") == "0":
        return "excluded"
    if not listed or ":" in listed:
        return "allowed"
    return "excluded" if listed.startswith("^") is ("nvls" in listed) else "allowed"


def _capability(environment: Environment) -> str | None:
    """The generation of the NVIDIA devices that the process saw; ``None`` without any, or if they differ. AMD's
    capabilities have another meaning."""
    if environment.hip is not None:
        return None
    majors = {device.capability.partition(".")[0] for device in environment.devices if device.capability}
    if not all(re.fullmatch("[0-9]{1,3}", major) for major in majors):
        return None
    generations = {"below-8.0" if m < 8 else f"{m}.x" if m < 10 else "10-and-newer" for m in map(int, majors)}
    return generations.pop() if len(generations) == 1 else None


def _flag(name: str, default: bool, in_torch: str, key: str = "", *, is_asked: bool = False, **more: Any) -> Setting:
    """A flag that is read and assigned as ``name``, ``in_torch`` in ``torch._C``; ``is_asked``: by conditions."""
    more["condition"] = itself(key or name, wanted=more.get("wanted")) if is_asked else None
    more["watched"] = (f"_set_{in_torch}", f"_get_{in_torch}")
    return Setting(key or name, name if key else "", default=default, read=name, made_by=name, **more)


DECLARED: tuple[Setting, ...] = (
    Setting(
        MODE,
        written="torch.use_deterministic_algorithms",
        label="deterministic mode",
        values=("off", "warn", "on"),
        default="off",
        read="torch.get_deterministic_debug_mode()",
        said={0: "off", 1: "warn", 2: "on"},
        watched=("_set_deterministic_algorithms", "_get_deterministic_algorithms"),
        made_by="torch.use_deterministic_algorithms()",
        arguments={"off": ((False,), {}), "warn": ((True,), {"warn_only": True}), "on": ((True,), {})},
        condition=itself(MODE, ("off", "warn", "on"), wanted="on"),
        chosen_in_forward=True,
        wanted="on",
        title="Turn deterministic mode on",
        where="at the top of the script, before the model is built and any op runs",
        place=PlanOrder.MODE,
    ),
    Setting(
        CUBLAS_VARIABLE,
        values=str,
        condition=SettingCondition("cublas_workspace", ("unset", "recurrent", "set"), _workspace, wanted="set"),
        wanted=CUBLAS_WORKSPACES[0],
        title="Give cuBLAS a fixed workspace",
        place=PlanOrder.WORKSPACE,
    ),
    _flag(
        "torch.backends.cudnn.enabled", True, "cudnn_enabled", "cudnn_enabled", is_asked=True, chosen_in_forward=True
    ),
    _flag("torch.backends.cudnn.deterministic", False, "cudnn_deterministic", "cudnn_deterministic", is_asked=True),
    _flag(
        "torch.backends.cudnn.benchmark",
        False,
        "cudnn_benchmark",
        "cudnn_benchmark",
        is_asked=True,
        wanted=False,
        title="Stop cuDNN from choosing algorithms by timing",
        place=PlanOrder.AUTOTUNE,
    ),
    _flag(
        "torch.utils.deterministic.fill_uninitialized_memory",
        True,
        "deterministic_fill_uninitialized_memory",
        FILL,
        is_asked=True,
        wanted=True,
    ),
    Setting(
        "NCCL_NVLS_ENABLE",
        values=str,
        condition=SettingCondition("nccl_nvls", ("allowed", "excluded"), _nvls, wanted="excluded"),
        wanted="0",
    ),
    Setting(
        "float32_matmul_precision",
        written="torch.set_float32_matmul_precision",
        label="float32 matmul precision",
        values=("highest", "high", "medium"),
        default="highest",
        read="torch.get_float32_matmul_precision()",
        watched=("_set_float32_matmul_precision", "_get_float32_matmul_precision"),
        made_by="torch.set_float32_matmul_precision()",
    ),
    _flag(
        "torch.backends.cuda.matmul.allow_tf32",
        False,
        "cublas_allow_tf32",
        "cuda_matmul_allow_tf32",
        label="TF32 in CUDA matmul",
    ),
    _flag("torch.backends.cudnn.allow_tf32", True, "cudnn_allow_tf32", "cudnn_allow_tf32", label="TF32 in cuDNN"),
    *(
        _flag(
            f"torch.backends.cuda.matmul.allow_{dtype}_reduced_precision_reduction",
            True,
            f"cublas_allow_{dtype}_reduced_precision_reduction",
            f"allow_{dtype}_reduced_precision_reduction",
            label=f"{dtype} reduced-precision reduction",
        )
        for dtype in ("fp16", "bf16")
    ),
    _flag("torch.backends.cuda.matmul.allow_fp16_accumulation", False, "cublas_allow_fp16_accumulation"),
    *(
        Setting(
            f"torch.backends.cuda.enable_{kernel}_sdp",
            default=True,
            read=f"torch.backends.cuda.{kernel}_sdp_enabled()",
            watched=(f"_set_sdp_use_{kernel}", f"_get_{kernel}_sdp_enabled"),
            made_by=f"torch.backends.cuda.enable_{kernel}_sdp()",
        )
        for kernel in ("flash", "mem_efficient", "math", "cudnn")
    ),
    _flag("torch.backends.mkldnn.enabled", True, "mkldnn_enabled"),
    Setting(
        "torch._C._get_nnpack_enabled",
        written="torch.backends.nnpack.set_flags",
        default=True,
        read="torch._C._get_nnpack_enabled()",
        watched=("_set_nnpack_enabled", "_get_nnpack_enabled"),
        made_by="torch.backends.nnpack.set_flags()",
    ),
    Setting(
        INDUCTOR_FLAG,
        default=False,
        read=INDUCTOR_FLAG,
        made_by=INDUCTOR_FLAG,
        condition=SettingCondition(
            "inductor_deterministic", BOOL, lambda environment: bool(held(INDUCTOR_FLAG, environment))
        ),
    ),
    Setting(
        "num_threads",
        written="torch.set_num_threads",
        label="intra-op threads",
        values=int,
        read="torch.get_num_threads()",
        watched=("set_num_threads", "get_num_threads"),
        made_by="torch.set_num_threads()",
        condition=SettingCondition(
            "threads",
            ("one", "many"),
            lambda environment: {None: None, 1: "one"}.get(environment.num_threads, "many"),
        ),
    ),
    Setting(
        "has_triton",
        label="Triton can be imported",
        read="tracer.recording.process.environment.has_triton()",
        condition=SettingCondition(
            "triton",  # the recording of a build without a GPU does not tell
            ("not-recorded", "importable", "missing"),
            lambda environment: {None: "not-recorded", True: "importable", False: "missing"}[environment.has_triton],
        ),
    ),
    Setting(
        "num_interop_threads",
        label="inter-op threads",
        values=int,
        read="torch.get_num_interop_threads()",
        made_by="torch.set_num_interop_threads()",
    ),
)

#: Conditions on the devices of the process, which no program sets.
OF_THE_MACHINE = (SettingCondition("capability", ("below-8.0", "8.x", "9.x", "10-and-newer"), _capability),)

#: Keys of the settings by which torch chooses a backward's kernel as the forward runs.
CHOSEN_IN_FORWARD = tuple(setting.key for setting in DECLARED if setting.chosen_in_forward)

#: Seeds that a program can set: torch's default generators, Python's ``random``, NumPy's global generator.
SEEDS = ("seed.torch", "seed.python", "seed.numpy")


def conditions() -> tuple[SettingCondition, ...]:
    """All conditions on the process's settings and devices."""
    asked = [(setting, setting.condition) for setting in DECLARED if setting.condition is not None]
    forward = (itself(FORWARD + own.key, own.domain) for setting, own in asked if setting.chosen_in_forward)
    return (*(own for _, own in asked), *forward, *OF_THE_MACHINE)


def declared(key: str) -> Setting | None:
    """The setting with that key, if it is declared here; ``FORWARD`` may lead the key."""
    return next((setting for setting in DECLARED if setting.key == key.removeprefix(FORWARD)), None)


#: Fields of ``Environment`` that a program can set, with torch's defaults.
DEFAULTS: Mapping[str, FactValue] = {
    setting.key: setting.default for setting in DECLARED if setting.is_field and setting.default is not None
}

_MODES = {Settings.WARN: DeterministicMode.WARN, Settings.DETERMINISTIC: DeterministicMode.ON}


def effective_environment(
    environment: Environment, settings: Settings, sets: Mapping[str, FactValue] | None = None
) -> Environment:
    """``environment`` with the target's settings, then ``sets`` (fields, variables, dotted names); versions, hardware
    and numbers of threads stay as recorded."""
    if settings is not Settings.RECORDED:
        variables = {CUBLAS_VARIABLE: CUBLAS_WORKSPACES[0]} if settings is Settings.DETERMINISTIC else {}
        mode = _MODES.get(settings, DeterministicMode.OFF)
        fields = {**DEFAULTS, MODE: mode, "variables": variables, "settings": {}}
        environment = msgspec.structs.replace(environment, **fields)
    changed: dict[str, object] = {}
    variables, dotted = dict(environment.variables), dict(environment.settings)
    for name, value in (sets or {}).items():
        if name in Environment.__struct_fields__:
            changed[name] = DeterministicMode(value) if name == MODE else value
        elif name not in SEEDS and "." in name:
            dotted[name] = value
        elif name not in SEEDS:
            variables[name] = str(value)
    return msgspec.structs.replace(environment, **changed, variables=variables, settings=dotted)


def settings_of(
    environment: Environment, settings: Settings, sets: Mapping[str, FactValue] | None = None
) -> dict[str, FactValue]:
    """All settings that conditions may read. Those that were not recorded are omitted: they are unknown."""
    environment = effective_environment(environment, settings, sets)
    read = {condition.key: condition.held_by(environment) for condition in conditions()}
    return {key: value for key, value in read.items() if value is not None}
