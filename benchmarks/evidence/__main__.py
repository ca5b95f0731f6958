"""Runs everything that holds the tables against the world, one after the other; 1 where anything fails.

python -m benchmarks.evidence                        # what needs neither a GPU nor the network: minutes
python -m benchmarks.evidence --only refusals unknown
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping

#: Each command of this folder that needs nothing but this machine, with what makes it short enough to be run by habit.
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "accuracy": (),
    "compiled": (),
    "dispatched": ("--check",),
    "refusals": ("--kept", "--brief"),
    "threads": ("--runs", "20"),
    "unknown": (),
}


def main() -> int:
    """Run the commands that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=[*COMMANDS], help="default: every one")
    failed = []
    for name in parser.parse_args().only:
        print(f"--- {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.evidence.{name}", *COMMANDS[name]]).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
