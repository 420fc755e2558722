"""scripts/install.sh on systems of all kinds, without installing anything: apt and dpkg are stubs."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

LISTS = ["debian-packages-core.txt", "debian-packages.txt", "debian-packages-tests.txt"]
STUBS = {
    "dpkg-query": "exit 1",
    "id": "echo 0",
    "apt-get": 'echo "apt-get $*" >>"$LOG"; [[ $* != *install* ]]',  # an install fails, so that the script ends there
    "apt-cache": 'if [[ $1 == madison ]]; then grep "^$2=" "$PINS" | sed "s/=/ | /"; fi',
}


def pins(*lists):
    """The lines of lists of packages, name=version."""
    return [line for name in lists for line in (ROOT / "scripts" / name).read_text().splitlines() if line[0] != "#"]


@pytest.fixture
def install(tmp_path):
    """Runs the script in a copy of the checkout where no package is installed; exit code, messages, calls of apt."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    for name, body in STUBS.items():
        (stubs / name).write_text(f"#!/usr/bin/env bash\n{body}\n", encoding="utf-8")
        (stubs / name).chmod(0o755)

    def run(os_release, *arguments):
        system, log = tmp_path / "os-release", tmp_path / "log"
        system.write_text(os_release, encoding="utf-8")
        log.write_text("", encoding="utf-8")
        environment = dict(os.environ, PATH=f"{stubs}:{os.environ['PATH']}", OS_RELEASE=str(system), LOG=str(log),
                           PINS=str(tmp_path / "pins"))
        (tmp_path / "pins").write_text("\n".join(pins(*LISTS)), encoding="utf-8")
        done = subprocess.run([tmp_path / "scripts/install.sh", *arguments], capture_output=True, text=True,
                              env=environment, timeout=60)
        return done.returncode, done.stdout + done.stderr, log.read_text(encoding="utf-8")

    return run


def test_debian_gets_the_pinned_versions(install):
    status, said, calls = install('ID=debian\nVERSION_ID="12"\n')
    assert status != 0 and "WARNING" not in said
    assert set(pins(*LISTS)) <= set(calls.split()), said


@pytest.mark.parametrize("level, lists", [("--core", 1), ("--build", 2)])
def test_a_build_gets_nothing_for_what_comes_after_it(install, level, lists):
    _, said, calls = install('ID=debian\nVERSION_ID="12"\n', level)
    assert set(pins(*LISTS[:lists])) <= set(calls.split()), said
    assert not set(pins(*LISTS[lists:])) & set(calls.split())


def test_a_build_without_emitters_gets_no_compiler_libraries(install):
    _, _, calls = install('ID=debian\nVERSION_ID="12"\n', "--core")
    assert not re.search("llvm|mlir|clang|boost|gtest", calls), calls


def test_unknown_options_are_refused(install):
    status, said, calls = install('ID=debian\nVERSION_ID="12"\n', "--all")
    assert status == 2 and "usage" in said and calls == ""


def test_ubuntu_gets_its_own_and_a_warning(install):
    _, said, calls = install('ID=ubuntu\nVERSION_ID="24.04"\n')
    assert "never built" in said
    assert "libboost-context1.83-dev" in calls.split() and "libmlir-19-dev" in calls.split()
    assert "=1" not in calls, "Debian's versions"


@pytest.mark.parametrize("system", ['ID=fedora\nVERSION_ID=41\n', 'ID=debian\nVERSION_ID="13"\n', ""])
def test_other_systems_are_told_of_the_wheel(install, system):
    status, said, calls = install(system)
    assert status == 1 and "take the wheel" in said and calls == ""
