"""Runs as a Python process starts whose parents are recorded with their children, and waits for ``import torch``.

``tracer.recording.process.following`` puts this folder in front of ``PYTHONPATH``. A process that never imports torch
has paid for this file alone, which loads nothing. Another ``sitecustomize`` runs as it would have. It must be readable
to any Python 3.
"""

import os
import sys

_VARIABLES = ("PYTHONPATH", "TRACER_CHILDREN")
#: What is said as a module is loaded that has a generator of its own.
_GENERATORS = {"numpy.random": "numpy", "random": "python"}


class _Bootstrap:
    """A finder that finds nothing, until torch is asked for."""

    def __init__(self, role: str, folder: str) -> None:
        self.role = role
        self.folder = folder
        self.starts = 0
        self.is_over = False
        self.hidden: dict[object, object] = {}

    def log(self, event: str) -> None:
        """Add to the log that all processes of the job share."""
        line = '{"role":"%s","pid":%d,"event":"%s"}\n' % (self.role, os.getpid(), event)  # noqa: UP031
        try:
            handle = os.open(os.path.join(self.folder, "log"), os.O_WRONLY | os.O_APPEND)
            try:
                os.write(handle, line.encode())
            finally:
                os.close(handle)
        except OSError:
            self.is_over = True

    def hide(self, own: str) -> None:
        """Let the program see the variables that it would have had; processes that it starts inherit ours."""
        data, key = os.environ._data, os.environ.encodekey  # type: ignore[attr-defined]
        self.hidden = {key(name): data[key(name)] for name in _VARIABLES if key(name) in data}
        first, parted, rest = os.environ.get("PYTHONPATH", "").partition(os.pathsep)
        del data[key("TRACER_CHILDREN")]
        if first == own and parted:
            data[key("PYTHONPATH")] = os.environ.encodevalue(rest)
        elif first == own:
            del data[key("PYTHONPATH")]

    def start(self) -> None:
        """Do what must be done before the program's first line where a run is held alike; else nothing."""
        if os.path.exists(os.path.join(self.folder, "start.json")):
            os.environ._data.update(self.hidden)  # type: ignore[attr-defined]  # as for what loads ``subprocess``
            self.is_over = True  # where torch lies may be asked
            try:
                from tracer.recording.process.following import FOLLOWING

                FOLLOWING.child_starts(self.folder, self.role)
            except Exception:  # no business of the program's
                pass
            self.is_over = False

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        """Begin to record when torch is about to be loaded."""
        if name in _GENERATORS:
            self.log(_GENERATORS[name])
        if self.is_over:
            return None
        if name == "subprocess":  # what starts processes may pass on the variables that it sees
            os.environ._data.update(self.hidden)  # type: ignore[attr-defined]
            return None
        if name != "torch":
            return None
        self.is_over = True
        sys.meta_path.remove(self)
        self.log("loads-torch")
        try:
            from tracer.recording.process.following import FOLLOWING

            FOLLOWING.take_over(self.folder, self.role, self.starts)
        except Exception:  # no business of the program's: the log says that nothing was recorded
            pass
        from importlib.util import find_spec

        return find_spec(name)

    def about_to_fork(self) -> None:
        """The child that comes is the next one of this process."""
        self.starts += 1

    def forked(self) -> None:
        """This is that child."""
        if not self.is_over:
            self.role, self.starts = "%s.%d" % (self.role, self.starts), 0  # noqa: UP031
            self.begins()

    def begins(self) -> None:
        """Say so, and which generators the process has already."""
        for event in ["begins"] + [_GENERATORS[name] for name in _GENERATORS if name in sys.modules]:
            self.log(event)


def _begin() -> None:
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != own]
    sys.path_importer_cache.pop(own, None)
    role, _, folder = os.environ.get("TRACER_CHILDREN", "").partition(":")
    if not folder:
        return
    bootstrap = _Bootstrap(role, folder)
    bootstrap.hide(own)
    if any("multiprocessing.resource_tracker" in argument for argument in getattr(sys, "orig_argv", ())):
        return
    bootstrap.begins()
    sys.meta_path.insert(0, bootstrap)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=bootstrap.about_to_fork, after_in_child=bootstrap.forked)
    bootstrap.start()


try:
    _begin()
finally:
    sys.modules.pop("sitecustomize", None)
    # The one that would have run; without one, ``site`` ignores the error.
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
