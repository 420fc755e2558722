"""What documents show runs as they show it: the tutorial, the README, the examples, links."""

import contextlib
import io
import os
import pathlib
import re
import runpy
import subprocess
import sys

import documents
import pytest

ROOT = documents.ROOT
BINARIES = ROOT / "build/release/bin"
DOCUMENTS = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """With a cache of results for all documents: two of them optimize the same program."""
    return dict(os.environ, XDG_CACHE_HOME=str(tmp_path_factory.mktemp("cache")), LC_ALL="C.UTF-8")


@pytest.fixture
def checkout(tmp_path):
    """A folder that looks like the checkout, into which commands may write."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("build", "examples", "programs", "docs"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def test_comparing_tells_what_is_missing():
    assert documents.compare(["a … c", "…", "= x(…"], "a b c\nd\ny = x(1)\n") is None
    assert documents.compare(["a"], "b\n") is not None
    assert documents.compare(["a"], "a\nb\n") is not None
    assert documents.compare(["…", "b"], "a\nc\n") is not None
    assert documents.compare(["a", "c"], "a\nb\nc\n") is not None


def test_tutorial(checkout, environment, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        counts = documents.run_document(ROOT / "docs/tutorial.md", checkout, environment)
    assert counts["console"] >= 9 and counts["python"] == 1, counts
    assert "1 kernel in place of" in printed.getvalue()
    assert "(16, 128) float16" in printed.getvalue()


def without_numbers(text):
    return re.sub(r"\d[\d.,]*(e[+-]?\d+)?", "#", text)


def test_readme_commands(checkout, environment):
    """Targets of make exist; blocks print what they show, but for the numbers; commands within the text run."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shell = documents.Shell(checkout, dict(environment, PATH=f"{BINARIES}:{os.environ['PATH']}"))
    targets, shown = [], 0
    for _, body, line in documents.blocks(text):
        targets += re.findall(r"^make (\S+)", body, re.MULTILINE)
        if not body.startswith("$ "):
            continue
        for command, wanted in documents.commands(body):
            found = shell.run(command)
            shown += 1
            # What follows tells of the machine: it has no GPU, or measured something.
            found = "".join(found.splitlines(keepends=True)[: len(wanted)])
            why = documents.compare([without_numbers(one) for one in wanted], without_numbers(found))
            assert why is None, f"README.md:{line}: $ {command}\n{why}"
    targets += re.findall(r"`make (\S+)`", text)
    assert {"run", "test"} <= set(targets) and shown >= 1
    subprocess.run(["make", "-n", *sorted(set(targets))], cwd=ROOT, check=True, capture_output=True, timeout=60)
    named = re.findall(r"`(strata \w[^`]*)`", text)
    assert any(one.startswith("strata decode ") for one in named)
    for command in named:
        if " --" in command:  # a whole command, and not the name of one
            # Without a GPU, that is what it says: exit code 3.
            status = shell.run(f"{command} >printed 2>&1 && echo 0 || echo $?").strip()
            printed = (checkout / "printed").read_text(encoding="utf-8")
            assert status == "0" or status == "3" and "driver" in printed, f"{command}: {status}\n{printed}"
    shell.close()


@pytest.mark.parametrize("name", ["text_program.sh", "decode.sh"])
def test_example_of_the_command_line(name, environment, tmp_path):
    wanted = {"text_program.sh": ["1 kernel in place of 7", "equivalent: ", "O: f16[16, 4096]"], "decode.sh": ["\n"]}
    arguments = [str(tmp_path / "out")] if name == "text_program.sh" else []
    done = subprocess.run([ROOT / "examples" / name, *arguments], capture_output=True, text=True, env=environment,
                          timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    for part in wanted[name]:
        assert part in done.stdout, done.stdout + done.stderr
    if name == "decode.sh":
        tokens = done.stdout.split()
        assert len(tokens) >= 4 and all(token.isdigit() for token in tokens), done.stdout


@pytest.mark.parametrize(("name", "package"), [("torch_compile.py", "torch"), ("jax_hlo.py", "jax")])
def test_example_of_a_framework(name, package, capsys, monkeypatch, tmp_path):
    pytest.importorskip(package)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    printed = capsys.readouterr().out
    assert {"torch": "largest difference", "jax": "<strata.Module (f32[32,16]"}[package] in printed


def test_every_example_is_tested():
    own = pathlib.Path(__file__).read_text(encoding="utf-8")
    for example in (ROOT / "examples").glob("*.*"):
        assert example.name in own or example.name in ("ray_shards.py", "README.md"), example


def anchor(heading):
    """As GitHub makes it."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def dead_links(document):
    text = documents.FENCE.sub("", document.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("http://", "https://")):
            continue
        path, _, section = link.partition("#")
        target = document.parent / path if path else document
        if not target.exists():
            yield link
        elif section and target.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            if section not in {anchor(one) for one in headings}:
                yield link


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    assert not list(dead_links(document))


def test_dead_links_are_found(tmp_path):
    document = tmp_path / "page.md"
    document.write_text("# One two\n[a](#one-two) [b](#three) [c](none.md) [d](page.md#one-two)\n", encoding="utf-8")
    assert list(dead_links(document)) == ["#three", "none.md"]


def test_pages_of_the_site(tmp_path):
    """The reference has each operator and command, and what the package offers; MkDocs itself is `make site`'s."""
    subprocess.run([sys.executable, ROOT / "scripts/site_pages.py", ROOT / "build/release", tmp_path], check=True,
                   timeout=120)
    pages = tmp_path / "docs"
    for page in pages.glob("*.md"):
        assert not list(dead_links(page)), page.name
    table = (pages / "reference-operators.md").read_text(encoding="utf-8")
    listed = {name.replace("_", "") for name in re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)}
    definitions = (ROOT / "src/ops/ops.def").read_text(encoding="utf-8")
    # An iota is written as an operator and is an input.
    assert listed == {name.lower() for name in re.findall(r"^STRATA_OP\((\w+)\)", definitions, re.MULTILINE)} | {"iota"}
    assert "## optimize\n" in (pages / "reference-commands.md").read_text(encoding="utf-8")
    python = (pages / "reference-python.md").read_text(encoding="utf-8")
    for name in ("### compile_hlo", "### optimize", "#### Kernel.save", "#### Graph.rms_norm"):
        assert name in python, name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_are_short(document):
    assert len(document.read_text(encoding="utf-8").splitlines()) <= 620, "split it"


@pytest.fixture(scope="module")
def sources():
    """All that code is called."""
    suffixes = {".h", ".cpp", ".py", ".def", ".cmake", ".txt"}
    files = [file for folder in ("src", "tools", "tests", "include", "python", "cmake") for file in
             (ROOT / folder).rglob("*") if file.suffix in suffixes and file.name != pathlib.Path(__file__).name]
    return set(re.findall(r"\w+", "\n".join(file.read_text(encoding="utf-8") for file in
                                            [*files, ROOT / "CMakeLists.txt"])))


@pytest.mark.parametrize("document", sorted(ROOT.glob("docs/adding-*.md")), ids=lambda path: path.name)
def test_guides_name_what_there_is(document, sources):
    """Files that guides to the code name are there, as are functions, types and options."""
    text = documents.FENCE.sub("", document.read_text(encoding="utf-8"))
    for name in re.findall(r"`([^`]+)`", text):
        if re.fullmatch(r"[\w.-]+(/[\w.-]+)+", name) and "NAME" not in name:
            assert (ROOT / name).exists() or (ROOT / "src" / name).exists(), f"{document.name}: {name}"
        elif re.fullmatch(r"\w+(::\w+)*", name):
            assert set(name.split("::")) <= sources, f"{document.name}: {name}"


def test_the_guide_to_operators_has_each_file_that_names_conv2d():
    """Its list of places where an operator that is not elementwise must be known; tests and its own file apart."""
    guide = (ROOT / "docs/adding-an-operator.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^- `([\w/.]+)`", guide.split("## A second example", 1)[1], re.MULTILINE))
    named = {str(file.relative_to(ROOT)) for file in (ROOT / "src").rglob("*.cpp")
             if not file.name.endswith("_test.cpp") and file.name != "conv2d.cpp"
             and re.search(r'OpKind::Conv2d|"conv2d"', file.read_text(encoding="utf-8"))}
    assert len(named) > 3 and listed == named


def test_the_page_on_hlo_has_each_header():
    page = (ROOT / "docs/hlo.md").read_text(encoding="utf-8")
    files = page.split("## The files", 1)[1].split("\n## ", 1)[0]
    named = set(re.findall(r"`(\w+\.h)`", files))
    assert named == {file.name for file in (ROOT / "src/hlo").glob("*.h") if not file.name.startswith("test_")}


def test_the_drawn_mugraph_is_the_one_that_is_found():
    """docs/rmsnorm-mugraph.svg has the texts that a drawing has today; where lines lie may change."""
    graph = ROOT / "tests/data/rmsnorm_fused.strata"
    drawn = subprocess.run([BINARIES / "strata", "show", "--format=svg", graph], check=True, capture_output=True,
                           text=True, timeout=60).stdout
    texts = [sorted(re.findall(r"<text[^>]*>([^<]*)</text>", svg)) for svg in
             (drawn, (ROOT / "docs/rmsnorm-mugraph.svg").read_text(encoding="utf-8"))]
    assert len(texts[0]) > 20 and texts[0] == texts[1], f"strata show --format=svg {graph} >docs/rmsnorm-mugraph.svg"
