"""One report that has everything in it, for golden files and the browser, and strings that mean harm."""

from __future__ import annotations

from tests.build import environment, evidence, finding, report
from tracer.names import BlindSpotKind, UnknownReason
from tracer.report import Report
from tracer.trace.model import BlindSpot, CudaDevice, TraceSource

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


def hostile_report(*texts: str) -> Report:
    """A finding for each of ``texts``, which stands in every field that a string can stand in."""
    findings = [
        finding(
            f"cuda-{text}",
            op=text,
            runs_as=text,
            module=text,
            location=text,
            function=text,
            called_from=text,
            why=text,
            remedy=text,
            evidence=(evidence(text),),
            facts={text: text},
            node=text,
            reason_detail=text,
            reason=UnknownReason.FACT_NOT_RECORDED,
            verdict=verdict,
        )
        for text in texts
        for verdict in ("nondeterministic", "unknown")
    ]
    first = texts[0] if texts else ""
    return report(
        *findings,
        banners=texts,
        blind_spots=(BlindSpot(kind=BlindSpotKind.SCRIPTED, detail=first, location=first),),
        environment=environment(variables={first: first}, platform=first),
        sources=(TraceSource(name=first, partial=first),),
    )
