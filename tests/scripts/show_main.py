"""Print what Python gives a script before its first line."""

before = {name: type(value).__name__ for name, value in sorted(globals().items())}

import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402

spec = globals().get("__spec__")
print(
    json.dumps(
        {
            "argv": sys.argv,
            "path0": sys.path[0],
            "globals": before,
            "name": __name__,
            "file": __file__,
            "package": __package__,
            "spec": spec and [spec.name, spec.origin],
            "loader": type(__loader__).__name__,
            "doc": __doc__,
            "builtins": __builtins__ is sys.modules["builtins"],
            "is_main": sys.modules["__main__"].__dict__ is globals(),
            "code_file": sys._getframe().f_code.co_filename,
            "annotations_are_eager": sys._getframe().f_code.co_flags & 0x1000000 == 0,
            "cwd": os.getcwd(),
        },
        indent=1,
        sort_keys=True,
    )
)
