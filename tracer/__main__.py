"""``python -m tracer``: the command line where no script can be named, as in ``torchrun -m tracer run``."""

from __future__ import annotations

from tracer.cli.main import main

if __name__ == "__main__":
    main()
