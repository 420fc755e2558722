#!/usr/bin/env python3
"""Checks the structure of the tree: includes go only upwards in the list of folders, commands include only what builds
without emitters have, one function writes files and one opens libraries, lines and files are short.

usage: check_includes.py [ROOT]    prints FILE:LINE: MESSAGE for each violation, and fails if there is one
"""

import pathlib
import re
import sys

# A folder may include itself and what stands before it.
ORDER = [
    "support",
    "page",
    "machine",
    "indexing",
    "ops",
    "ir",
    "block",
    "interpret",
    "runtime",
    "superopt/expr",
    "superopt/verify",
    "superopt/partition",
    "superopt/solver",
    "superopt/optimize",
    "superopt/search",
    "superopt/codegen",
    "superopt",
    "report",
    "hlo",
    "compiler/core",
    "hlo/indexing",
    "frontend",
    "emitters/math",
    "emitters/backend",
    "emitters/dialect",
    "emitters/transforms",
    "emitters/elemental",
    "emitters/kinds",
    "emitters/fusion",
    "emitters/library",
    "emitters/lax",
    "emitters",
    "megakernel",
    "megakernel/tgraph",
    "megakernel/runtime",
    "megakernel/models",
    "megakernel/tasks",
    "megakernel/fibers",
    "megakernel/decode",
    "compiler",
    "api",
    "python",
]

# A pair that the order would allow: code generation works on any proved graph, however it was found.
FORBIDDEN = {
    ("superopt/codegen", "superopt/search"),
}

# Folders that are one library with their rooms: a room's tests run whole modules, through the front above the rooms.
WITH_ROOMS = {"emitters"}
# A build without emitters (STRATA_EMITTERS in CMakeLists.txt) has the folders up to this one and those below. Of HLO it
# has the header by which it knows HLO where it sees it, and the shapes that functions of arrays have.
CORE_ENDS_WITH = "report"
CORE_HAS = {"compiler/core", "python"}
CORE_KNOWS = {"hlo/text.h", "hlo/shape.h"}
# Its command line and its Python extension, but for their folders full/.
CORE_PROGRAMS = ["tools/strata", "src/python"]

TEST_FILE = re.compile(r"test_.*|(?:.*_)?test(?:ing)?")

MAX_COLUMNS = 120
MAX_LINES = 600
CHECKED_FOLDERS = ["include", "src", "tools", "tests"]
CODE = {".h", ".c", ".cpp", ".cu", ".cuh", ".def", ".inc"}
TEXT = CODE | {".py", ".sh", ".txt", ".cmake", ".css", ".js"}
# Expected outputs, which are as long as they are.
EXEMPT = ["tests/golden"]

# What opens files for writing; support/write_file.h does it for all.
WRITERS = re.compile(r"\b(?:std::o?fstream|FILE\*\s*\w+\s*=|std::fopen|::creat|O_CREAT|O_WRONLY|O_RDWR|std::rename)\b")
MAY_WRITE = {
    "src/support/write_file.cpp",
    "src/runtime/measure.cpp",  # /dev/null, for a child
    "src/superopt/codegen/launcher.cpp",  # in the text of a generated program
    "src/superopt/codegen/program_text.cpp",  # in the text of a generated program
    "tools/strata/run_commands.cpp",  # /dev/null, for a stream that is closed
}

LOADER = re.compile(r"\bdlopen\b")
MAY_LOAD = {"src/runtime/cuda_libraries.cpp"}

INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def folder_of(path):
    """The folder of ORDER that a path relative to src/ lies in: the longest that fits, or None."""
    fits = [folder for folder in ORDER if path.is_relative_to(folder) and path != pathlib.PurePosixPath(folder)]
    return max(fits, key=len, default=None)


def included_path(source, file, name):
    """What an include names, relative to src/ - or None for a header that is not of src/."""
    for base in (file.parent, source):
        candidate = (base / name).resolve()
        if candidate.is_file() and candidate.is_relative_to(source):
            return pathlib.PurePosixPath(candidate.relative_to(source).as_posix())
    return None


def includes(file):
    """The includes of a file: numbers of lines and what they name."""
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1] or match[2]


def is_test(path):
    return TEST_FILE.fullmatch(path.stem) is not None


def why_not(origin, file, target, included):
    """Why `file` in the folder `origin` may not include `included` in `target`, or None if it may."""
    if target is None:
        return "a file that is in no folder of the list"
    if (origin, target) in FORBIDDEN:
        return f"{target}, which {origin} must not know"
    library = origin.split("/")[0]
    if library in WITH_ROOMS and target.split("/")[0] == library:
        if is_test(file):
            return None
        if is_test(included):
            return "a test's, which may include what comes after it"
    if ORDER.index(target) > ORDER.index(origin):
        return f"{target}, which comes after {origin}"
    return None


def check_includes(root):
    """Yields (file, line, message) for every include of src/ and include/ that goes backwards."""
    source = (root / "src").resolve()
    for file in code_files(root, ["src", "include"]):
        public = not file.is_relative_to(source)
        origin = None if public else folder_of(pathlib.PurePosixPath(file.relative_to(source).as_posix()))
        if not public and origin is None:
            yield file, 1, "in a folder that scripts/check_includes.py does not list"
            continue
        for number, name in includes(file):
            included = included_path(source, file, name)
            if not included:
                continue
            reason = "src, which users do not have" if public else why_not(
                origin, file, folder_of(included), included)
            if reason:
                yield file, number, f'include of "{name}" goes backwards: {reason}'


def check_core(root):
    """Yields (file, line, message) for every include of a program that a build without emitters has not."""
    source, full = (root / "src").resolve(), [(root / program / "full").resolve() for program in CORE_PROGRAMS]
    for file in code_files(root, CORE_PROGRAMS):
        if any(file.resolve().is_relative_to(one) for one in full):
            continue
        for number, name in includes(file):
            included = included_path(source, file, name)
            named = source / included if included else (file.parent / name).resolve()
            if any(named.is_relative_to(one) for one in full):
                yield file, number, f'include of "{name}", which builds without emitters have not'
            if not included or str(included) in CORE_KNOWS:
                continue
            target = folder_of(included)
            if target in CORE_HAS:
                continue
            if target is None or ORDER.index(target) > ORDER.index(CORE_ENDS_WITH):
                yield file, number, f'include of "{name}", which builds without emitters have not: see emitters.h'


def check_lengths(root):
    """Yields (file, line, message) for lines and files that are too long."""
    for file in text_files(root, CHECKED_FOLDERS):
        lines = file.read_text(encoding="utf-8").splitlines()
        if len(lines) > MAX_LINES:
            yield file, MAX_LINES + 1, f"{len(lines)} lines, more than {MAX_LINES}"
        for number, line in enumerate(lines, 1):
            if len(line) > MAX_COLUMNS:
                yield file, number, f"{len(line)} columns, more than {MAX_COLUMNS}"


def check_system(root):
    """Yields (file, line, message) for code that writes files or opens libraries by itself; tests may."""
    for file in code_files(root, ["src", "tools", "bench"]):
        name = file.relative_to(root).as_posix()
        if file.stem.endswith("_test") or file.stem.startswith("test_"):
            continue
        if name.startswith("src/superopt/codegen/device/"):  # text of generated programs
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if WRITERS.search(line) and name not in MAY_WRITE:
                yield file, number, "writes a file by itself; use write_file of support/write_file.h"
            if LOADER.search(line) and name not in MAY_LOAD:
                yield file, number, "opens a library by itself; use open_cuda_library of runtime/cuda_libraries.h"


def files(root, folders, suffixes):
    exempt = [root / folder for folder in EXEMPT]
    for folder in folders:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in suffixes and file.is_file() and not any(file.is_relative_to(skip) for skip in exempt):
                yield file


def code_files(root, folders):
    return files(root, folders, CODE)


def text_files(root, folders):
    return files(root, folders, TEXT)


def check(root):
    root = root.resolve()
    violations = [*check_includes(root), *check_core(root), *check_system(root), *check_lengths(root)]
    return [f"{file.relative_to(root)}:{line}: {message}" for file, line, message in violations]


def main(arguments):
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).parents[1]
    if not (root / "src").is_dir():
        print(f"check_includes: no src in {root}", file=sys.stderr)
        return 2
    violations = check(root)
    for violation in violations:
        print(violation)
    print(f"check_includes: {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
