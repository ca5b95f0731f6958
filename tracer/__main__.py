"""The program ``tracer``, and ``python -m tracer`` where no script can be named, as in ``torchrun -m tracer run``."""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Run the command line. Control-C while it is still loading ends this process without a traceback."""
    try:
        from tracer.cli.main import main as run
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    else:
        run()


if __name__ == "__main__":
    main()
