"""The package of the core build, which has no emitters."""

import pathlib
import signal
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parents[2] / "build" / "core" / "python"
sys.path.insert(0, str(PACKAGE))

# As in tests/python.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """There is no GPU, and nothing in the cache."""
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("STRATA_CUDA_DRIVER", "/nowhere/libcuda.so.1")
    monkeypatch.chdir(tmp_path)
