"""One report that has everything in it, for golden files and the browser, and strings that mean harm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from tests.support.build import environment, evidence, finding, process_finding, report
from tracer.findings import FillCost, Note, PlannedChange, Target
from tracer.names import BlindSpotKind, Phase, SeedOrigin, UnknownReason
from tracer.report import Report
from tracer.trace.records import Allocation, BlindSpot, CudaDevice, Draw, Environment, Generator, Loader, TraceSource

#: What names, remedies and facts may hold; each once broke some renderer somewhere.
HOSTILE = (
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 2</script>",
    "&<img src=x onerror='window.hacked = 3'>",
    "\"'><svg onload=window.hacked=4>",
    "<!--<script>",
    "{{ 7 * 7 }}{% raw %}",
    '=HYPERLINK("http://example.invalid")',
    "-1+1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\x1b[31mred\x1b[0m",
    "line\none\r\ntwo",
    'comma, "quote"; semicolon',
    "lone surrogate \ud800 and \udcff",
    "right \u202eto left\u2069",
    "separators \u2028\u2029",
    "nul \x00 bell \x07",
    "[bold]rich markup[/bold] :smile:",
    "x" * 10_000,
)


def with_plan(made: Report, plan: tuple[PlannedChange, ...]) -> Report:
    """``made`` with this plan in place of the one that its judgement yields."""
    planned = replace(made)
    vars(planned)["plan"] = plan  # where it is cached
    return planned


def full_report() -> Report:
    """Every verdict, phase, banner and section, with a library's frame under the user's own."""
    return report(
        finding(count=12, module="GPT2LMHeadModel.transformer.h.3.attn", called_from="train.py:61"),
        finding(
            "cuda-upsample-bilinear2d-backward",
            op="aten.upsample_bilinear2d_backward.default",
            phase="backward",
            module="unet.up.1",
            location="src/vision/unet/decoder_blocks.py:210",
            function="Up.forward",
            count=4,
            deterministic_mode="raises",
            remedy='Upsample with mode="nearest-exact".',
            evidence=(evidence("torch.nn.Upsample"), evidence("runs/upsample.json", "measured")),
            node="UpsampleBilinear2DBackward0",
        ),
        finding(
            "cuda-sort-ties",
            op="aten.sort.default",
            location="train.py:44",
            verdict="conditional",
            deterministic_mode="conditional",
            cause="tie-order",
            why="Equal keys keep no order.",
            remedy="Pass stable=True.",
            evidence=(evidence("aten/src/ATen/native/cuda/Sort.cpp", "source"),),
        ),
        finding(
            "cuda-dropout",
            op="aten.native_dropout.default",
            phase="recompute",
            count=24,
            verdict="seeded",
            deterministic_mode="seeded",
            cause="rng",
            why="Masks are drawn from a generator.",
            remedy="Seed it.",
        ),
        finding(
            "cuda-opaque",
            op="flash_attn._flash_attn_backward.default",
            phase="backward",
            location="",
            verdict="unknown",
            deterministic_mode="unknown",
            cause="opaque",
            why="",
            remedy="",
            evidence=(),
            reason=UnknownReason.OPAQUE,
            reason_detail="flash_attn._flash_attn_backward",
        ),
        clean=2_000,
        banners=("The trace is partial: recording ended early (KeyboardInterrupt).",),
        blind_spots=(
            BlindSpot(kind=BlindSpotKind.COMPILED, detail="decode was compiled", location="model.py:88", count=3),
        ),
        environment=environment(
            cuda="12.8", devices=(CudaDevice(name="NVIDIA H200", capability="9.0"),), cudnn_benchmark=False
        ),
        sources=(
            TraceSource(name="train.py", rank=0, world_size=2, optimizer_steps=2, calls=1_000),
            TraceSource(name="train.py", rank=1, world_size=2, optimizer_steps=1, partial="KeyboardInterrupt"),
        ),
        differing_settings=("cudnn_benchmark",),
    )


SEED_WORKER = """\
def seed_worker(worker_id):
    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    numpy.random.seed(seed)


loader = DataLoader(dataset, shuffle=True, num_workers=4, worker_init_fn=seed_worker, generator=generator)
"""


def process_report() -> Report:
    """Everything that no op shows, in every section, beside two findings about calls, under a plan of its own."""
    made = report(
        finding(count=12, module="GPT2LMHeadModel.transformer.h.3.attn", called_from="train.py:61"),
        finding(
            "cpu-dropout",
            op="aten.native_dropout.default",
            module="net.drop",
            location="net.py:31",
            count=24,
            verdict="seeded",
            deterministic_mode="seeded",
            cause="rng",
            why="Masks are drawn from a generator.",
            remedy="Seed it.",
        ),
        process_finding(),
        process_finding(
            "environment-set-too-late",
            about="late",
            subject="CUBLAS_WORKSPACE_CONFIG = :4096:8",
            location="train.py:14",
            function="main",
            verdict="conditional",
            deterministic_mode="raises",
            cause="workspace",
            ops={"aten.mm.default": 1_200, "aten.bmm.default": 300, "aten.addmm.default": 8},
            count=1_508,
            why="cuBLAS had read it at its first product, before this line.",
            remedy="Set it before torch is imported.",
            code='os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"',
            where="before torch is imported, or in the shell that starts the script",
        ),
        process_finding(
            "environment-python-generator",
            about="generator",
            subject="python",
            location="data.py:20",
            ops={"random.shuffle": 2},
            count=2,
            cause="rng",
            why="Nobody seeded Python's own generator.",
            remedy="Seed it.",
            code="random.seed(0)",
            where="at the top of the script",
        ),
        process_finding(
            "environment-unwritten-memory",
            about="memory",
            op="aten.add.Tensor",
            subject="aten.empty.memory_format at net.py:40",
            phase="forward",
            location="net.py:44",
            ops={},
            count=3,
            deterministic_mode="deterministic",
            cause="uninitialized-memory",
            why="It read what nobody had written.",
            remedy="Write it first, or use `torch.zeros`.",
            code="",
            where="",
        ),
        process_finding(
            "environment-loader-workers",
            about="loader",
            subject="DataLoader",
            location="train.py:30",
            ops={},
            count=1,
            cause="rng",
            why="Its workers draw from NumPy's generator, and nobody seeds it in them.",
            remedy="Pass `worker_init_fn` and `generator`.",
            code=SEED_WORKER,
            where="where the DataLoader is made",
        ),
        process_finding(
            "environment-numpy-generator-objects",
            about="generator",
            subject="numpy.random.Generator objects",
            ops={},
            count=1,
            verdict="unknown",
            deterministic_mode="unknown",
            cause="rng",
            why="They cannot be seen.",
            remedy="Seed each where it is made.",
            reason=UnknownReason.NO_EVIDENCE,
        ),
        clean=2_000,
        notes=(
            Note(
                rule="environment-tf32",
                subject="torch.backends.cuda.matmul.allow_tf32 = True",
                why="Products are rounded to ten bits where the device has TF32.",
                remedy="Set it alike everywhere.",
                ops={"aten.mm.default": 1_200},
            ),
        ),
        draws=(
            Draw(
                generator="cpu",
                op="aten.native_dropout.default",
                phase=Phase.FORWARD,
                module="net.drop",
                location="net.py:31",
                function="forward",
                count=24,
                origin=SeedOrigin.PROGRAM,
                seeded_at="train.py:9",
            ),
            Draw(generator="python", op="random.shuffle", location="data.py:20", count=2, origin=SeedOrigin.MACHINE),
            Draw(generator="passed (cpu)", op="aten.randperm.generator", location="data.py:8", origin=SeedOrigin.FIXED),
        ),
        generators=(
            Generator(name="cpu", origin=SeedOrigin.PROGRAM, seeded_at="train.py:9", drew=True),
            Generator(name="cuda:0", origin=SeedOrigin.PROGRAM, seeded_at="train.py:9", drew=False),
            Generator(name="python", origin=SeedOrigin.MACHINE, drew=True),
            Generator(name="numpy", origin=SeedOrigin.UNSEEN, drew=None),
        ),
        allocations=(
            Allocation(
                op="aten.empty.memory_format",
                phase=Phase.FORWARD,
                module="net.cache",
                location="net.py:40",
                function="forward",
                called_from="train.py:61",
                count=120,
                bytes=47_400_000,
                unfollowed=2,
            ),
            Allocation(op="aten.new_empty.default", location="net.py:52", count=4, bytes=512),
        ),
        fill=FillCost(calls=124, bytes=47_400_512, reads=3, unfollowed=2, is_on=False),
        loaders=(
            Loader(
                location="train.py:30",
                function="main",
                workers=4,
                shuffles=True,
                sampler="RandomSampler",
                origin=SeedOrigin.MACHINE,
                start_method="fork",
                iterations=2,
            ),
            Loader(location="train.py:34", sampler="SequentialSampler"),
        ),
    )
    return with_plan(
        made,
        (
            PlannedChange(
                number=1,
                title="Stop cuDNN from choosing algorithms by timing",
                code="torch.backends.cudnn.benchmark = False",
                where="at the top of the script, before the model runs",
                closes=1,
                calls=24,
                rules=("environment-cudnn-benchmark",),
                findings=(0,),
                sets={"cudnn_benchmark": False},
            ),
            PlannedChange(
                number=2,
                title="Seed the workers of the DataLoader: its order and its workers' draws come from one generator",
                code=SEED_WORKER,
                where="train.py:30",
                closes=2,
                calls=0,
                rules=("environment-loader-workers", "environment-python-generator"),
                findings=(3, 4),
            ),
            PlannedChange(
                number=3,
                title="Turn the fill off: it looks safe for this step",
                code="torch.utils.deterministic.fill_uninitialized_memory = False",
                where="after deterministic mode is turned on",
            ),
        ),
    )


def saturated(value: Any, text: str) -> Any:
    """``value`` with ``text`` in place of every string that may come from anywhere."""
    if type(value) is str:
        return text
    if isinstance(value, Target):
        return value
    if isinstance(value, Environment):  # its version is read
        return msgspec.structs.replace(value, platform=text, variables={text: text})
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return type(value)(**{name: saturated(inner, text) for name, inner in fields.items()})
    if isinstance(value, tuple):
        return tuple(saturated(inner, text) for inner in value)
    if isinstance(value, dict):
        return {saturated(key, text): saturated(inner, text) for key, inner in value.items()}
    return value


def hostile_process_report(text: str) -> Report:
    """``text`` in every field of a report on the process that can hold a string."""
    made = process_report()
    kept = {"tables": made.judgement.tables, "tally": made.judgement.tally}
    judgement = msgspec.structs.replace(saturated(made.judgement, text), **kept)
    return with_plan(replace(made, judgement=judgement), saturated(made.plan, text))


def hostile_report(*texts: str) -> Report:
    """Two findings for each of ``texts``, which stands in every field that a string can stand in."""
    made = full_report()
    both = [one for one in made.findings if one.rule in ("cuda-index-add", "cuda-opaque")]
    kept = {"tables": made.judgement.tables, "tally": made.judgement.tally}
    findings = tuple(saturated(one, text) for text in texts for one in both)
    hostile = msgspec.structs.replace(saturated(made.judgement, texts[0]), findings=findings, banners=texts, **kept)
    lines = msgspec.structs.replace(hostile.trace, source_lines=dict.fromkeys(texts, texts[0]))
    return replace(made, judgement=msgspec.structs.replace(hostile, trace=lines), traces=texts)
