#!/usr/bin/env python3
"""Writes the pages of the site: the documents as they are, and a reference made from the operator table, the command
line's help, the docstrings of the Python package and the C++ headers.

usage: site_pages.py BUILD FOLDER    BUILD: a build folder with bin/strata and python/strata; FOLDER is emptied
"""

import inspect
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

#: Modules of the Python package that have a reference, and what each is.
MODULES = ["strata", "strata.graph", "strata.kernel", "strata.module", "strata.optimize", "strata.arrays"]  # fmt: skip

NAVIGATION = [
    ("Strata", ["index.md", "tutorial.md", "examples.md"]),
    ("Use", ["command-line.md", "text-format.md", "sizes.md", "hlo.md", "python.md", "torch-front-end.md", "cpp.md",
             "reports.md", "runtime.md", "security.md"]),
    ("How it works", ["pipeline.md", "partition.md", "search.md", "abstract-expressions.md", "cost-model.md",
                      "verification.md", "solver.md", "codegen.md", "indexing.md", "emitters.md",
                      "emitters-modules.md", "emitters-products.md", "emitters-backend.md", "emitters-math.md",
                      "megakernel.md", "megakernel-runtime.md", "megakernel-models.md", "decoding.md"]),
    ("Extend", ["contributing.md", "adding-an-operator.md", "adding-a-rule.md", "adding-an-emitter.md",
                "adding-a-task.md", "adding-a-model.md", "testing.md"]),
    ("Figures", ["benchmarks.md", "benchmarks-emitters.md", "benchmarks-modules.md",
                 "benchmarks-modules-history.md", "benchmarks-models.md", "benchmarks-decoding.md", "decode-gaps.md"]),
    ("Reference", ["reference-operators.md", "reference-commands.md", "reference-python.md", "reference-cpp.md"]),
]  # fmt: skip


def columns(table):
    """The rows of a table whose columns begin where those of its first line do: lists of cells."""
    lines = table.rstrip("\n").splitlines()
    starts = [match.start() for match in re.finditer(r"(?:(?<=  )|^)\S", lines[0])]
    rows = []
    for line in lines:
        rows.append([line[begin:end].strip() for begin, end in zip(starts, [*starts[1:], None])])
    return rows


def operators(strata):
    rows = columns(subprocess.run([strata, "ops"], check=True, capture_output=True, text=True).stdout)
    escaped = [["" if cell == "-" else cell.replace("|", "\\|").replace("*", "\\*") for cell in row] for row in rows]
    lines = ["# Operators", "",
             "From the operator table (`strata ops`). Levels: K kernel, B block, T thread graphs. Attributes with `?` "
             "may be left out.", ""]
    lines.append("| " + " | ".join(escaped[0]) + " |")
    lines.append("|---" * len(escaped[0]) + "|")
    lines += ["| `" + row[0] + "` | " + " | ".join(row[1:]) + " |" for row in escaped[1:]]
    return "\n".join(lines) + "\n"


def commands(strata):
    """The help of each command that `strata --help` lists."""
    def help_of(*words):
        return subprocess.run([strata, *words, "--help"], check=True, capture_output=True, text=True).stdout.strip()

    text = help_of()
    names = re.findall(r"^  (\w[\w-]*) {2,}\S", text.split("Subcommands:")[-1], re.MULTILINE)
    if "optimize" not in names:
        raise SystemExit(f"site_pages: `strata --help` lists no commands:\n{text}")
    parts = ["# Commands", "", "```text", text, "```", ""]
    for name in names:
        parts += [f"## {name}", "", "```text", help_of(name), "```", ""]
    return "\n".join(parts)


def own_members(module):
    """(name, object) of what a module has itself, or offers to users by `__all__`."""
    listed = getattr(module, "__all__", None)
    for name, member in sorted(vars(module).items()):
        if name.startswith("_") or not (inspect.isclass(member) or inspect.isfunction(member)):
            continue
        if listed is not None and name not in listed:
            continue
        if member.__module__ == module.__name__:
            yield name, member


def documented(title, member, level):
    """A heading with the signature, and the docstring as it is written."""
    try:
        signature = str(inspect.signature(member))
    except (TypeError, ValueError):
        signature = ""
    text = inspect.getdoc(member) if member.__doc__ else None
    lines = [f"{'#' * level} {title}", "", "```python", f"{title}{signature}", "```", ""]
    return lines + (["```text", text, "```", ""] if text else [])


def python_reference(package):
    sys.path.insert(0, str(package))
    import importlib

    lines = ["# The Python package", "", "From its docstrings. [python.md](python.md) is the guide.", ""]
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        members = list(own_members(module))
        lines += [f"## {module_name}", "", *((inspect.getdoc(module) or "").splitlines()), ""]
        for name, member in members:
            lines += documented(name, member, 3)
            if not inspect.isclass(member):
                continue
            for inner, function in sorted(vars(member).items()):
                if isinstance(function, (classmethod, staticmethod)):
                    function = function.__func__
                if isinstance(function, property):
                    lines += [f"#### {name}.{inner}", "", "```text", inspect.getdoc(function) or "", "```", ""]
                elif inspect.isfunction(function) and not inner.startswith("_"):
                    lines += documented(f"{name}.{inner}", function, 4)
    return "\n".join(lines)


def cpp_reference():
    lines = ["# The C++ headers", "", "[cpp.md](cpp.md) is the guide.", ""]
    for header in ("strata.h", "function.h", "kernel.h", "error.h"):
        text = (ROOT / "include/strata" / header).read_text(encoding="utf-8")
        lines += [f"## strata/{header}", "", "```cpp", text.rstrip(), "```", ""]
    return "\n".join(lines)


def examples():
    """The list of examples/README.md with the text of each below it."""
    folder = ROOT / "examples"
    text = (folder / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"`\1`", text)
    lines = [text.rstrip(), ""]
    files = sorted([*folder.glob("*.sh"), *folder.glob("*.py"), *folder.glob("cpp/*")])
    for file in files:
        kind = {".py": "python", ".sh": "sh", ".cpp": "cpp"}.get(file.suffix, "text")
        lines += [f"## {file.relative_to(folder)}", "", f"```{kind}", file.read_text(encoding="utf-8").rstrip(), "```",
                  ""]
    return "\n".join(lines)


def from_root(path):
    """A document of the checkout's root as a page beside those of docs."""
    text = (ROOT / path).read_text(encoding="utf-8")
    text = text.replace("](docs/", "](").replace("](CONTRIBUTING.md)", "](contributing.md)")
    return text.replace("](LICENSE)", "](license.md)").replace("](examples)", "](examples.md)")


def titles():
    return "\n".join(f"  - {section}:\n" + "\n".join(f"    - {page}" for page in pages) for section, pages in NAVIGATION)


def write_pages(build, folder):
    """All pages, to folder/docs, and folder/mkdocs.yml."""
    pages = folder / "docs"
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(parents=True)
    for file in (ROOT / "docs").iterdir():
        if file.suffix == ".md":
            # Other files of the checkout are not part of the site.
            text = re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", file.read_text(encoding="utf-8"))
            (pages / file.name).write_text(text, encoding="utf-8")
        elif file.suffix == ".svg":
            shutil.copy(file, pages)
    strata = build / "bin/strata"
    made = {
        "index.md": from_root("README.md"),
        "contributing.md": from_root("CONTRIBUTING.md"),
        "license.md": "# License\n\n```text\n" + (ROOT / "LICENSE").read_text(encoding="utf-8") + "```\n",
        "examples.md": examples(),
        "reference-operators.md": operators(strata),
        "reference-commands.md": commands(strata),
        "reference-python.md": python_reference(build / "python"),
        "reference-cpp.md": cpp_reference(),
    }
    for name, text in made.items():
        (pages / name).write_text(text, encoding="utf-8")
    listed = {page for _, section in NAVIGATION for page in section}
    missing = {file.name for file in pages.glob("*.md")} - listed - {"license.md"}
    if missing or not all((pages / page).exists() for page in listed):
        raise SystemExit(f"site_pages: NAVIGATION of scripts/site_pages.py does not list {sorted(missing)}, or lists "
                         "pages that are not there")
    (folder / "mkdocs.yml").write_text(
        "site_name: Strata\ndocs_dir: docs\nsite_dir: html\nuse_directory_urls: false\ntheme: readthedocs\n"
        "not_in_nav: license.md\nmarkdown_extensions: [tables, fenced_code, toc]\n"
        f"nav:\n{titles()}\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write_pages(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
