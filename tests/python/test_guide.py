"""The examples of docs/python.md run as they stand."""

import pathlib
import re

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "python.md"


def test_examples_of_the_guide(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = GUIDE.read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(examples) >= 6
    names = {}
    for example in examples:
        exec(compile(example, "guide.py", "exec"), names)  # noqa: S102: the point of the test
    printed = capsys.readouterr().out
    told = ("graph normed {", "guide.py:2:5: matmul", "1 kernel in place of 8", "random tests", "(16, 4096) float16")
    for wanted in told:
        assert wanted in printed, wanted
    assert names["again"].mugraph == names["same"].mugraph == names["kernel"].mugraph
    assert names["same"].source == names["kernel"].source
    assert (names["doubled"] == 2).all()
