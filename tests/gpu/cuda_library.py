"""Opens CUDA's libraries where src/runtime/cuda_libraries.cpp looks for them, and among this Python's packages."""
import ctypes
import glob
import importlib.util
import os
import pathlib
import site
import sys


def open_cuda_library(variable, names):
    """The file that $`variable` names, else the first of `names` in a toolkit, in packages, in the system."""
    roots = [os.environ[v] for v in ("STRATA_CUDA_ROOT", "CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
    roots.append("/usr/local/cuda")
    for packages in [*site.getsitepackages(), *(p for p in sys.path if p.endswith("site-packages"))]:
        roots += glob.glob(f"{packages}/nvidia/*")
    files = [os.environ[variable]] if os.environ.get(variable) else []
    files += [str(pathlib.Path(root) / folder / name) for root in roots for folder in ("lib64", "lib")
              for name in names]
    for file in [f for f in files if pathlib.Path(f).exists()] + names:
        try:
            return ctypes.CDLL(file)
        except OSError:
            continue
    raise RuntimeError(f"{names[0]} was not found")


def name_toolkit_of_packages():
    """Sets STRATA_CUDA_ROOT, where it is not, to CUDA's libraries among PyTorch's packages."""
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations if spec else []:
        root = pathlib.Path(place) / "cu13"
        if root.is_dir():
            os.environ.setdefault("STRATA_CUDA_ROOT", str(root))
