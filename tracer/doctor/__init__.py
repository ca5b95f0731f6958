"""The table of settings held against this very process: what is installed here, and what is wrong with its settings."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from tracer.files import read_text
from tracer.findings import Evidence
from tracer.judging.process_findings import ReadSetting, is_worth_a_note, read_setting
from tracer.names import SEVERITY, About, Backend, Differs, Settings, Verdict
from tracer.recording.process.settings import read_settings, set_variables
from tracer.report import blocks as said
from tracer.report.words import GUARANTEE, VERDICTS, by_severity, joined, plural
from tracer.tables.asked import asked
from tracer.tables.conditions import BoundRule
from tracer.tables.rules import CATEGORIES, EnvironmentTable, SettingRow
from tracer.tables.settings import settings_of
from tracer.tables.versions import placed, release, reviewed_releases, speaks_of
from tracer.trace.records import CudaDevice, Environment, FactValue


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What a row of the table says of a setting."""

    row: str = ""
    """The row's permanent id, ``environment-cudnn-benchmark``."""
    why: str = ""
    remedy: str = ""
    code: str = ""
    """Lines that mend it."""
    where: str = ""
    """The place where they must stand."""


class Checked(Advice, frozen=True, kw_only=True):
    """One setting as it stands, and what follows from it."""

    name: str
    category: str
    value: FactValue | None
    """As it stands: as it was read, else torch's default; ``None`` where it has none."""
    is_set: bool
    """Whether somebody set it to another value than the default."""
    wanted: str
    """The value that it should have, in words; empty where any value does."""
    verdict: Verdict
    missing: tuple[str, ...] = ()
    """For an unknown verdict: settings that would have decided and could not be read."""
    is_note: bool = False
    """Whether it differs from what makes other machines and versions agree. Two runs agree on this one."""
    backends: tuple[Backend, ...] = ()
    """Those present that it bears on; empty: the process whatever the backend."""
    evidence: tuple[Evidence, ...] = ()


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    backends: tuple[Backend, ...]
    """Those that torch was built for here, or the one that was asked for."""
    has_torch: bool
    versions: dict[str, str] = {}
    """The installed versions, by name: torch, CUDA, cuDNN, NCCL, NumPy."""
    devices: tuple[CudaDevice, ...] = ()
    """Those that could be read without starting any."""
    absent: tuple[str, ...] = ()
    """Groups of calls (``tables.rows.Group``) and rows, by name and id, whose library is not installed."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting of a process that bears on its backends."""

    outlook: Outlook
    torch: str
    """The installed release; empty where torch cannot be imported: rows were asked for every reviewed one."""
    settings: tuple[Checked, ...]
    """Worst first; those that do no harm after, in the table's order."""
    unread: tuple[str, ...] = ()
    """Rows whose setting could not be read: torch or a library is not loaded, or this build has no such thing."""
    banners: tuple[str, ...] = ()
    """Warnings that every reader must see first."""

    def of(self, verdicts: Collection[Verdict]) -> tuple[Checked, ...]:
        return tuple(setting for setting in self.settings if setting.verdict in verdicts)

    @property
    def faults(self) -> tuple[Checked, ...]:
        """The settings that can make two runs differ, or of which it is not known."""
        return tuple(setting for setting in self.settings if setting.verdict is not Verdict.DETERMINISTIC)

    @property
    def notes(self) -> tuple[Checked, ...]:
        """The settings to which other machines or versions would answer otherwise."""
        return tuple(setting for setting in self.settings if setting.is_note)


_Settings = Callable[..., Mapping[str, FactValue]]


def diagnose(table: EnvironmentTable, environment: Environment, outlook: Outlook) -> Diagnosis:
    """Hold ``environment`` against each row about a setting, as if every op that it needs had run.

    ``environment.torch`` is empty where torch is absent: torch's own settings are left out then, and counted.
    """
    releases = reviewed_releases(table.reviewed)
    installed = release(environment.torch) if outlook.has_torch else ""
    place = placed(table.reviewed, installed) if installed else "reviewed"
    # Whichever release will be used where none is installed: what they disagree about is unknown.
    versions = (installed,) if installed else tuple(f"{reviewed}.0" for reviewed in releases)
    if place == "newer":
        versions = (f"{releases[-1]}.0",)
    rows = [row for row in table.row if _bears(row, outlook) and any(speaks_of(row.torch, torch) for torch in versions)]
    asked_for = () if place in ("older", "between") else versions

    def settings(sets: Mapping[str, FactValue] | None = None) -> Mapping[str, FactValue]:
        """What cases may ask of the process; nothing is known of torch where it is absent."""
        return settings_of(environment, Settings.RECORDED, sets) if outlook.has_torch else {}

    checked = [
        _check(row, read, asked_for, settings, outlook)
        for row in rows
        # Without torch, what the shell or Python holds can still be read.
        if outlook.has_torch or not (row.field or row.read.startswith(("torch.", "torch_npu.")))
        if (read := read_setting(row, environment)) is not None
    ]
    unread = tuple(row.id for row in rows if row.id not in {setting.row for setting in checked})
    checked.sort(key=lambda row: (SEVERITY.index(row.verdict), not row.is_note))  # stable: else the table's order
    return Diagnosis(
        outlook=outlook,
        torch=installed,
        settings=tuple(checked),
        unread=unread,
        banners=tuple(_banners(outlook, place, installed, releases)),
    )


def _banners(outlook: Outlook, place: str, installed: str, releases: Sequence[str]) -> Iterator[str]:
    if not outlook.has_torch:
        yield "torch cannot be imported here: environment variables and Python alone were checked."
    elif place == "newer":
        yield f"The table was reviewed up to torch {releases[-1]}: its answers are extrapolated to {installed}."
    elif place != "reviewed":
        yield f"The table was reviewed for torch {releases[0]} to {releases[-1]} alone: nothing is known here."


def _bears(row: SettingRow, outlook: Outlook) -> bool:
    """Return whether the row's setting can be read, and calls that it affects can be made here."""
    is_setting = row.about in (About.SETTING, About.COMPILED) and bool(row.field or row.variable or row.read)
    is_here = row.id not in outlook.absent and (not row.needs or not set(row.needs) <= set(outlook.absent))
    return is_setting and is_here and (not row.backends or not set(row.backends).isdisjoint(outlook.backends))


def _check(
    row: SettingRow, read: ReadSetting, versions: Sequence[str], settings: _Settings, outlook: Outlook
) -> Checked:
    """``versions``: those that the row is asked for; none where the table was not reviewed for the installed one."""
    own = settings()
    asked_for = [version for version in versions if speaks_of(row.torch, version)]
    outcomes = [BoundRule(row, version, own).decide({"value": read.word}) for version in asked_for]
    agree = len({outcome.verdict for outcome in outcomes}) == 1
    case = outcomes[-1].case if agree else None
    return Checked(
        row=row.id,
        name=row.name,
        category=row.category,
        value=read.value if read.value is not None else row.default,
        is_set=read.value is not None,
        wanted=_wanted(row, versions[-1], settings) if versions else "",
        verdict=outcomes[-1].verdict if agree else Verdict.UNKNOWN,
        missing=outcomes[-1].missing if agree else ("torch's version",),
        is_note=row.differs is Differs.MACHINES and is_worth_a_note(row, read),
        backends=tuple(backend for backend in outlook.backends if backend in row.backends),
        why=(case.why if case is not None else "") or row.why,
        remedy=(case.remedy if case is not None else "") or row.remedy,
        code=row.code,
        where=row.where,
        evidence=tuple(Evidence(kind=evidence.kind, ref=evidence.ref) for evidence in row.evidence),
    )


def _wanted(row: SettingRow, version: str, settings: _Settings) -> str:
    """The values with which two runs agree, in words; empty where that is all of them."""
    if row.differs is Differs.MACHINES:
        is_default_good = not row.safe and row.default is not None
        return " or ".join(_in_words(row, {"unset"} if is_default_good else {"safe"}))
    own = settings()
    tried = {"unset": own, "safe": settings(row.sets), "other": own}
    outcomes = {word: BoundRule(row, version, sets).decide({"value": word}) for word, sets in tried.items()}
    good = {word for word, outcome in outcomes.items() if outcome.verdict is Verdict.DETERMINISTIC}
    return "" if len(good) == len(tried) else " or ".join(_in_words(row, good))


def _in_words(row: SettingRow, good: Collection[str]) -> Iterator[str]:
    values: list[FactValue | None] = [*(row.safe if "safe" in good else ())]
    if "unset" in good and row.default not in values:
        values.append(row.default)
    texts: dict[str, str] = {}
    for text in map(spelled, values):
        texts.setdefault(text.casefold(), text)
    yield from texts.values()


def spelled(value: FactValue | None) -> str:
    """A value as people read it: as Python writes it, and a text without quotes."""
    return "not set" if value is None else str(value)


# --- as blocks: what is wrong first, with the lines that mend it ----------------------------------------------


def diagnosis_blocks(diagnosis: Diagnosis, *, all_settings: bool = False) -> Iterator[said.Block]:
    """Yield the installation, each setting at fault, and with ``all_settings`` every other one."""
    outlook = diagnosis.outlook
    yield said.Paragraph(", ".join(f"{name} {version}" for name, version in outlook.versions.items()))
    for device in outlook.devices:
        capability = f" (compute capability {device.capability})" if device.capability else ""
        yield said.Paragraph(f"Device: {device.name}{capability}")
    yield said.quiet(f"Checked for {joined(outlook.backends)}, as if every op that a setting bears on had run.")
    yield from said.paragraphs(*diagnosis.banners, tone=said.Tone.STRONG)
    yield said.Rows(tuple(map(_fault, diagnosis.faults)), is_spaced=True)
    if all_settings:
        if diagnosis.notes:
            yield said.Heading("Other machines or versions may answer otherwise; two runs here agree")
            yield said.Rows(tuple(map(_fault, diagnosis.notes)))
        harmless = [setting for setting in diagnosis.of((Verdict.DETERMINISTIC,)) if not setting.is_note]
        harmless.sort(key=lambda setting: CATEGORIES.index(setting.category))
        for category, members in groupby(harmless, key=lambda setting: setting.category):
            yield said.Pairs(tuple((f"= {setting.name}", spelled(setting.value)) for setting in members), category)
    counts = {verdict: len(diagnosis.of((verdict,))) for verdict in Verdict}
    by_verdict = ", ".join(f"{count} {VERDICTS[verdict].label}" for verdict, count in by_severity(counts))
    yield said.Heading(f"{plural(len(diagnosis.settings), 'setting')}: {by_verdict or 'none'}.")
    if diagnosis.unread:
        yield said.Paragraph(f"{plural(len(diagnosis.unread), 'setting')} could not be read here.")
    if not all_settings and len(diagnosis.settings) > len(diagnosis.faults):
        between = f", {len(diagnosis.notes)} of which other machines may answer otherwise" if diagnosis.notes else ""
        yield said.quiet(f"--all lists the rest{between}.")
    yield said.quiet(GUARANTEE)


def _fault(fault: Checked) -> said.Row:
    key: said.Words = fault.name if fault.is_note else (said.Badge(fault.verdict), f": {fault.name}")
    should = f", and should be {fault.wanted}" if fault.wanted else ""
    on = f" (for {joined(fault.backends)})" if fault.backends else ""
    standing = said.Paragraph(f"It is {spelled(fault.value)}{should}{on}.")
    return said.Row(key, blocks=(standing, *what_to_do(fault), said.quiet(f"Row: {fault.row}")))


def what_to_do(fault: Advice) -> Iterator[said.Block]:
    missing = f"Not known without {joined(fault.missing)}." if isinstance(fault, Checked) and fault.missing else ""
    yield from said.paragraphs(missing, fault.why, f"Remedy: {fault.remedy}" if fault.remedy else "")
    if fault.code:
        yield said.Sample(fault.code.rstrip(), "the code")
        yield from said.paragraphs(f"Where: {fault.where}." if fault.where else "")


# --- what is installed in this process; nothing is started for the asking ----------------------------------

#: Where NVIDIA's driver lists its devices and its version, and Ascend's its own.
_NVIDIA = Path("/proc/driver/nvidia/gpus")
_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")
_ASCEND = Path("/dev")
#: Where Linux says which processor it runs on.
_PROCESSORS = Path("/proc/cpuinfo")
#: Packages whose version bears on a step; a distribution is called so in small letters, with hyphens for spaces.
_PACKAGES = (
    *("NumPy", "Triton", "torch_npu", "torchvision", "transformers", "accelerate", "DeepSpeed", "xFormers"),
    *("flash-attn", "causal-conv1d", "mamba-ssm", "Transformer Engine"),
)
#: Libraries that torch was built with, as ``torch.__config__.show()`` spells them.
_BUILT_WITH = {
    "BLAS": re.compile(r"\bBLAS_INFO=([\w.-]+)"),
    "MKL": re.compile(r"Math Kernel Library Version ([\w.]+)"),
    "oneDNN": re.compile(r"(?:MKL-DNN|oneDNN) v([\w.]+)"),
}

#: Names among the versions that stand for the machine itself.
PLATFORM, PROCESSOR, DRIVER = "platform", "processor", "NVIDIA driver"

#: Groups of calls that only a library makes, and rows that matter to it alone, with the modules that are that library.
LIBRARIES = {
    "causal-conv1d": ("causal_conv1d",),
    "flash-attention-library": ("flash_attn", "flash_attn_3", "flash_attn_interface"),
    "transformer-engine": ("transformer_engine",),
    "environment-mamba": ("mamba_ssm",),
    "environment-triton-cache-autotuning": ("triton",),
}


def read_process(backend: Backend | None = None) -> tuple[Environment, Outlook]:
    """This process's settings and what is installed, for ``backend`` or for those that are here. Imports torch."""
    try:
        import torch

        from tracer.recording.process.environment import capture_environment
    except (ImportError, OSError):  # absent, or a library of its own is: its settings cannot be asked either way
        environment = Environment(
            python=platform.python_version(),
            platform=f"{platform.system()}-{platform.machine()}",
            torch="",
            variables=set_variables(asked().variables),
            settings=read_settings(asked().settings),
        )
        here: tuple[Backend, ...] = tuple(word for word in Backend if word is not Backend.RECORDED)
        built = ""
    else:
        environment, here, built = capture_environment(), tuple(_backends(torch)), torch.__config__.show()
    outlook = Outlook(
        backends=here if backend is None else (backend,),
        has_torch=bool(environment.torch),
        versions=dict(_versions(environment, built)),
        devices=environment.devices or tuple(_devices()),
        absent=tuple(name for name, modules in LIBRARIES.items() if not any(map(find_spec, modules))),
    )
    return environment, outlook


def _backends(torch: Any) -> Iterator[Backend]:
    yield Backend.CPU
    if torch.version.hip is not None:
        yield Backend.ROCM
    elif torch.version.cuda is not None:
        yield Backend.CUDA
    if getattr(torch.version, "xpu", None) is not None:
        yield Backend.XPU
    if torch.backends.mps.is_built():
        yield Backend.MPS
    if find_spec("torch_npu") is not None:
        yield Backend.NPU


def _versions(environment: Environment, built: str) -> Iterator[tuple[str, str]]:
    """Yield the installed versions, by name; ``built`` is the version that torch says it was built with."""
    yield "Python", environment.python
    yield PLATFORM, environment.platform
    if processor := _first_value(_PROCESSORS, "model name"):
        yield PROCESSOR, processor
    if driver := re.search(r"Kernel Module\s[^\n]*?(\d+(?:\.\d+)+)", _text_of(_NVIDIA_DRIVER)):
        yield DRIVER, driver[1]
    for name in ("torch", "CUDA", "HIP", "cuDNN", "NCCL"):
        if value := getattr(environment, name.lower()):
            yield name, value
    for name, spelling in _BUILT_WITH.items():
        if version_of_it := spelling.search(built):
            yield name, version_of_it[1]
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            yield name, version(name.lower().replace(" ", "-"))
    for home in filter(None, map(os.environ.get, ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH"))):
        for file in ("compiler/version.info", "version.info"):
            if cann := _first_value(Path(home, file), "version", "="):
                yield "CANN", cann
                return


def _devices() -> Iterator[CudaDevice]:
    """The devices that drivers list; asking CUDA for them would start it, and spoil a later fork."""
    with suppress(OSError):
        for folder in sorted(_NVIDIA.glob("*")):
            yield CudaDevice(name=_first_value(folder / "information", "Model") or "NVIDIA device")
    with suppress(OSError):
        for _ in _ASCEND.glob("davinci[0-9]*"):
            yield CudaDevice(name="Ascend NPU")


def _first_value(path: Path, key: str, between: str = ":") -> str:
    """Of a file whose lines are ``key: value``, the first value of ``key``; empty where there is none."""
    lines = (line.partition(between) for line in _text_of(path).splitlines())
    return next((value.strip() for name, _, value in lines if name.strip().lower() == key.lower()), "")


def _text_of(path: Path) -> str:
    with suppress(OSError, ValueError):
        return read_text(path)
    return ""
