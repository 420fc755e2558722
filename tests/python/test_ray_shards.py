"""The Ray example with local workers: the union of the shards' results is the whole search's."""
import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STRATA = ROOT / "build/release/bin/strata"

def graphs(folder):
    return [candidate["graph"] for candidate in json.loads((folder / "report.json").read_text())["candidates"]]


def test_union_of_shards_is_the_whole_search(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install -r requirements-ray.txt")
    program = ROOT / "programs/lora.strata"
    subprocess.run([sys.executable, ROOT / "examples/ray_shards.py", program, "--strata", STRATA, "--shards", "2",
                    "--output", tmp_path / "sharded"], check=True, timeout=1800)
    subprocess.run([STRATA, "optimize", program, "--target", "sm_90a", "--no-cache", "-o", tmp_path / "whole"],
                   check=True, timeout=1800)
    assert graphs(tmp_path / "sharded") == graphs(tmp_path / "whole")
