"""Runs what documents show: commands with what they print, and Python."""

import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(text):
    """(language, body, line) of each fenced block."""
    return [(match[1], match[2], text.count("\n", 0, match.start()) + 1) for match in FENCE.finditer(text)]


def matches(wanted, found):
    """Whether a line is as the document has it, where `…` is anything. Spaces count as one."""
    pattern = ".*".join(re.escape(part) for part in " ".join(wanted.split()).split("…"))
    return re.fullmatch(pattern, " ".join(found.split())) is not None


def compare(wanted, found):
    """Why lines that were printed are not the document's, or None. A line `…` is any number of lines."""
    found = found.splitlines()
    at, gap = 0, False
    for line in wanted:
        if line.strip() == "…":
            gap = True
            continue
        # A line after a gap may also be the end of one, such as `= reduce_max(…`.
        fits = (lambda one: matches("…" + line.lstrip(), one)) if gap else (lambda one: matches(line, one))
        candidates = range(at, len(found)) if gap else range(at, min(at + 1, len(found)))
        place = next((i for i in candidates if fits(found[i])), None)
        if place is None:
            return f"there is no line '{line}' in\n" + "\n".join(found)
        at, gap = place + 1, False
    if not gap and at < len(found):
        return f"there is more than in the document: {found[at:]}"
    return None


class Shell:
    """One bash for all commands of a document: variables and the folder stay."""

    def __init__(self, folder, environment):
        self._errors = tempfile.NamedTemporaryFile()
        self._shell = subprocess.Popen(["bash", "-u"], cwd=folder, env=environment, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, command, fails=False):
        """What it prints to the standard output, or of a command that fails to both streams. Fails where the command
        does, or where it should and does not."""
        end = "--end of the command--"
        errors = "2>&1" if fails else f"2>{self._errors.name}"
        self._shell.stdin.write(f"{{ {command}\n}} </dev/null {errors}\necho \"{end} $?\"\n")
        self._shell.stdin.flush()
        lines = []
        for line in self._shell.stdout:
            before, found, status = line.partition(end)
            lines.append(before)
            if found:
                failed = status.strip() != "0"
                said = "" if fails else pathlib.Path(self._errors.name).read_text(encoding="utf-8")
                assert failed == fails, f"{command}\n{''.join(lines)}{said}exit code {status}"
                return "".join(lines)
        raise AssertionError(f"the shell ended in {command}\n{''.join(lines)}")

    def close(self):
        self._shell.stdin.close()
        self._shell.wait(60)
        self._errors.close()


def commands(body):
    """(command, lines that it prints) of a block that shows both."""
    found = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            assert found, f"a block begins with what no command prints: {line}"
            found[-1][1].append(line)
    return found


def run_document(path, folder, environment, names=None):
    """Runs the blocks `sh`, `console` and `python` of a document in order; how many there were of each."""
    shell = Shell(folder, environment)
    names = {} if names is None else names
    counts = {}
    try:
        for language, body, line in blocks(path.read_text(encoding="utf-8")):
            counts[language] = counts.get(language, 0) + 1
            if language == "sh":
                shell.run(body)
            elif language == "console":
                for command, wanted in commands(body):
                    why = compare(wanted, shell.run(command, any("error: " in line for line in wanted)))
                    assert why is None, f"{path.name}:{line}: $ {command}\n{why}"
            elif language == "python":
                exec(compile(body, f"{path.name}:{line}", "exec"), names)  # noqa: S102: the point of the test
    finally:
        shell.close()
    return counts
