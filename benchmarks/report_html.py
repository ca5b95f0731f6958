"""What the HTML page costs, as a multiple of pandas' own ``to_html`` on the same findings.

    python benchmarks/report_html.py [--findings 20000] [--repeats N]

Both start from findings that are judged already, in a fresh process each, so that the peak memory is that of the one
work; pandas makes a plain table of the CSV's columns, the page all that it shows. The processes alternate, so that a
busy machine slows both alike; processor time, the median of the ratios of neighbours, with their range. ``tracer
report`` as a whole is timed once more by the clock, from the trace's file to the page's.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.report_time import make_trace, seconds, spread

ROOT = Path(__file__).parent.parent
#: By the clock and in memory, for the whole command at 20,000 findings; bytes of the page at 1,000.
AT_MOST_SECONDS = 10.0
AT_MOST_MEMORY = 1e9
AT_MOST_PAGE = 1_500_000
#: Findings of the JSON report whose memory is measured.
MANY = 100_000


def work(kind: str, trace: str) -> dict[str, float]:
    """Render ``trace`` in this process: ``page``, ``pandas`` or ``json``, the last into a file beside it; its processor
    time, peak memory and output's size."""
    from tracer import Trace, judge

    report = judge(Trace.load(trace), backend="cuda", settings="default")
    frame = report.to_dataframe() if kind == "pandas" else None
    start = time.process_time()
    if kind == "json":
        text = ""
        report.write(f"{trace}.report.json")
    else:
        text = report.to_html() if frame is None else frame.to_html()
    spent = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"seconds": spent, "peak": peak, "size": len(text.encode()), "findings": len(report.findings)}


def apart(kind: str, trace: Path) -> dict[str, float]:
    """``work`` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.report_html", "--work", kind, "--trace", str(trace)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def main() -> int:
    """Print the ratio, the peaks and whether the targets hold; 0 if they do."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--findings", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--work", choices=["page", "pandas", "json"], help=argparse.SUPPRESS)
    parser.add_argument("--trace", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        print(json.dumps(work(options.work, options.trace)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        trace, small = Path(folder) / "large.json", Path(folder) / "small.json"
        make_trace(options.findings).save(trace)
        make_trace(1_000).save(small)
        pages, frames = [], []
        for _ in range(options.repeats):
            frames.append(apart("pandas", trace))
            pages.append(apart("page", trace))
        whole = seconds([sys.executable, "-m", "tracer", "report", str(trace), *_FOR, "-o", f"{folder}/page.html"])
        size = apart("page", small)["size"]
        make_trace(MANY).save(trace)
        json_peak = apart("json", trace)["peak"]
    ratios = [page["seconds"] / frame["seconds"] for page, frame in zip(pages, frames, strict=True)]
    peaks = [statistics.median(process["peak"] for process in side) for side in (pages, frames)]
    print(f"{pages[0]['findings']:,.0f} findings, against pandas' to_html of the same rows (= 1.00):")
    print(f"  the page  {spread(ratios, 'x')}, {spread([page['seconds'] for page in pages], ' s')}")
    print(f"  peak memory {peaks[0] / 1e6:.0f} MB (pandas {peaks[1] / 1e6:.0f} MB)")
    print(f"  {pages[0]['size'] / 1e6:.2f} MB of page")
    print(f"  `tracer report`, file to file: {whole:.1f} s\n1,000 findings: {size / 1e6:.2f} MB of page")
    print(f"JSON of {MANY:,} findings, written to a file: peak memory {json_peak / 1e6:.0f} MB")
    held = whole < AT_MOST_SECONDS and peaks[0] < AT_MOST_MEMORY and size < AT_MOST_PAGE
    print(
        f"Targets (under {AT_MOST_SECONDS:.0f} s and {AT_MOST_MEMORY / 1e9:.0f} GB, at 1,000 findings under "
        f"{AT_MOST_PAGE / 1e6:.1f} MB) {'met' if held else 'MISSED'}."
    )
    return 0 if held else 1


_FOR = ("--backend", "cuda", "--settings", "default", "--format", "html")

if __name__ == "__main__":
    sys.exit(main())
