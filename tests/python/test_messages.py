"""Every strata.Error that the package's Python raises has a second line with what to do."""

import ast
import pathlib

import strata

#: Those that hand on a whole message, of the extension or of another function.
_HANDED_ON = {"str(error)", "message", "missing[0]", "f'{frame.f_code.co_filename}:{frame.f_lineno}: {message}'"}


def errors(source):
    """Calls of Error and _error: the line, the text of the call, and its literal parts."""
    for node in ast.walk(ast.parse(source)):
        called = getattr(node, "func", None)
        if getattr(called, "id", getattr(called, "attr", "")) in ("Error", "_error", "at_the_users_line"):
            literal = (str(one.value) for one in ast.walk(node) if isinstance(one, ast.Constant))
            yield node.lineno, ast.unparse(node.args[0]) if node.args else "", "".join(literal)


def test_errors_have_a_remedy():
    files = sorted(pathlib.Path(strata.__file__).resolve().parent.rglob("*.py"))
    found = [(file.name, *one) for file in files for one in errors(file.read_text(encoding="utf-8"))]
    assert len(found) > 60
    without = [one[:3] for one in found if "\n  " not in one[3] and one[2] not in _HANDED_ON]
    assert not without


def test_a_message_without_a_remedy_is_found():
    (one,) = errors("raise Error(f'{what} is wrong')")
    assert "\n  " not in one[2]
