"""Empty CUDA libraries: one for each that a torch wheel links to, with every symbol that it asks for.

What a wheel waits an answer from is written in C (``cudart.c``, ``cudalibs.c``). The rest is made here: a function that
returns 0; one that notes its name first, where it stands for work that cuBLAS, cuDNN, cuFFT, cuSOLVER, cuSPARSE or NCCL
would do; or one that fails, where success would hand out a pointer to nothing.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
#: Which library a symbol is looked for in, by how the two begin; the first that fits counts.
_HOMES = (
    ("cublasLt", "libcublasLt"),
    ("cublas", "libcublas"),
    ("cudnn", "libcudnn.so"),
    ("cufft", "libcufft.so"),
    ("cuFile", "libcufile"),
    ("curand", "libcurand"),
    ("cusolver", "libcusolver"),
    ("cusparseLt", "libcusparseLt"),
    ("cusparse", "libcusparse.so"),
    ("cupti", "libcupti"),
    ("nvrtc", "libnvrtc"),
    ("nccl", "libnccl"),
    ("nvshmem", "libnvshmem"),
    ("nvtx", "libnvToolsExt"),
    ("cuda", "libcudart"),
    ("__cuda", "libcudart"),
    ("cu", "libcuda.so"),
)
#: Entry points of the driver that torch looks up by name while it runs.
_LOOKED_UP = (
    "cuMemCreate",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemExportToShareableHandle",
    "cuMemImportFromShareableHandle",
    "cuStreamWriteValue32_v2",
)
_LOG = {"nullgpu_log", "nullgpu_count", "nullgpu_name", "nullgpu_note"}
_COMPUTES = re.compile(r"(cublas|cudnn|cufft|curand|cusolver|cusparse|nccl)")
#: What these libraries do besides computing: handles, descriptors, sizes, plans.
_PREPARES = re.compile(
    r"Create|Destroy|Set|Get|Version|Query|Init|Heuristic|[bB]ufferSize|Descriptor|Finalize|Plan|Comm|Group|Derive"
)
_FAILS = re.compile(
    r"cuda(GetExportTable|IpcOpenMemHandle|Import|ExternalMemory|DestroyExternal|SignalExternal|WaitExternal|Graphics"
    r"|Malloc3D|MallocArray|MallocMipmapped|GetMipmapped|Array|Mipmapped|CreateTexture|CreateSurface|GetTexture"
    r"|GetSurface|GetChannel|Memcpy3DPeer|Memcpy2D\w*Array|MemcpyArray|Graph(Exec|Add|Clone|ChildGraph|Kernel\w+Get|Mem"
    r"|Host|Event)|LibraryGet|LibraryEnumerate|LibraryLoadFromFile|MemRange|MemPool(Export|Import|GetAccess))"
)
_VERSIONS: Mapping[str, int] = {"11": 11070, "12": 12040, "13": 13000}


def build(torch: Path, headers: Path, folder: Path, cuda: str) -> None:
    """Make every library that the wheel at ``torch`` links to, in ``folder``; ``cuda`` is its major version."""
    folder.mkdir(parents=True, exist_ok=True)
    objects = {name: _compiled(name, headers, folder, cuda) for name in ("cudart", "cudalibs")}
    written = {name: _defined(path) for name, path in objects.items()}
    asked, links = _asked_for(torch)
    libraries = sorted(name for name in links if re.match(r"lib(cu|nccl|nv|cudnn|cupti)", name))
    symbols: dict[str, dict[str, set[str]]] = {name: defaultdict(set) for name in (*libraries, "libcuda.so.1")}
    for symbol in asked:
        name, _, version = symbol.partition("@")
        home = _home(name, libraries)
        if home:
            symbols[home][version.lstrip("@")].add(name)
    runtime = _home("cuda", libraries)
    symbols[runtime][""] |= _LOG
    symbols["libcuda.so.1"][""] |= set(_LOOKED_UP)
    symbols["libcuda.so.1"][""] |= {n for n in written["cudalibs"] if re.match(r"cu[A-Z]", n)}
    _link(folder, runtime, symbols[runtime], [objects["cudart"]], written["cudart"])
    for name in symbols:
        if name != runtime:
            _link(folder, name, symbols[name], [objects["cudalibs"], folder / runtime], written["cudalibs"])


def _home(symbol: str, libraries: list[str]) -> str:
    for begin, library in _HOMES:
        if symbol.startswith(begin):
            return next((one for one in (*libraries, "libcuda.so.1") if one.startswith(library)), "")
    return ""


def _asked_for(torch: Path) -> tuple[set[str], set[str]]:
    """Symbols that the wheel's libraries use and none of them defines, and the libraries that they name."""
    used: set[str] = set()
    own: set[str] = set()
    links: set[str] = set()
    libraries = sorted((torch / "lib").glob("*.so*"))
    for library in libraries:
        for line in _output("nm", "-D", library).splitlines():
            *_, kind, symbol = line.split()
            (used if kind in "Uwv" else own).add(symbol)
        links |= set(re.findall(r"NEEDED.*\[(.*?)\]", _output("readelf", "-d", library)))
    defined = {symbol.partition("@")[0] for symbol in own}
    asked = {symbol for symbol in used if symbol.partition("@")[0] not in defined}
    return asked, links - {library.name for library in libraries}


def _compiled(name: str, headers: Path, folder: Path, cuda: str) -> Path:
    made = folder / f"{name}.o"
    flags = [f"-DCUDA_VERSION={_VERSIONS[cuda]}", f"-I{headers}", f"-I{folder}"]
    _output("gcc", "-c", "-O1", "-fPIC", "-w", *flags, "-o", made, HERE / f"{name}.c")
    return made


def _defined(path: Path) -> set[str]:
    lines = (line.split() for line in _output("nm", "--defined-only", path).splitlines())
    return {name for _, kind, name in lines if kind == "T"}


def _link(folder: Path, name: str, symbols: Mapping[str, set[str]], inputs: list[Path], written: set[str]) -> None:
    wanted = sorted(set().union(*symbols.values()) - written)
    source, versions = folder / "made.c", folder / "made.map"
    source.write_text("void nullgpu_note(const char *);\nint nullgpu_made(void) { return 0; }\n" + _made(wanted))
    source_map = "".join(
        f"{version} {{ global: {_listed(names)} }};\n" for version, names in sorted(symbols.items()) if version
    )
    plain = f"{{ global: nullgpu_made; {_listed(symbols.get('', set()))} local: *; }};\n"
    versions.write_text(source_map + ("NULLGPU " if source_map else "") + plain)
    flags = [f"-Wl,-soname,{name}", f"-Wl,--version-script={versions}", "-Wl,-rpath,$ORIGIN", "-ldl"]
    _output("gcc", "-shared", "-fPIC", "-w", "-o", folder / name, source, *inputs, *flags)


def _listed(names: set[str]) -> str:
    return " ".join(f"{name};" for name in sorted(names))


def _made(names: list[str]) -> str:
    return "".join(f"int {name}() {{ {_body(name)} }}\n" for name in names)


def _body(name: str) -> str:
    if _COMPUTES.match(name) and not _PREPARES.search(name):
        return f'nullgpu_note("{name}"); return 0;'
    return f"return {int(bool(_FAILS.match(name)))};"


def _output(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(str(part) for part in command[:2])} failed: {done.stderr.strip()[:500]}")
    return done.stdout
