#!/usr/bin/env python3
"""batch_sources.py LINES FILE...: prints the batches in which files of one target are compiled, one a line.

Files of a batch are included into one source, so that headers are parsed and templates instantiated once for all of
them. There the unnamed namespaces of all its files are one, and each sees the headers of all. So two files share a
batch only if no name of one's own (in an unnamed namespace, static, a macro) is declared by the other too, itself or in
a header that it includes, and no header of one hides a name that the other uses. A batch has at most LINES lines, or
one file. Names are found by the layout that clang-format gives: what is in a namespace begins at column 0.
"""

import functools
import pathlib
import re
import sys

SOURCE_ROOT = pathlib.Path(__file__).resolve().parent.parent / "src"
KEYWORDS = {"return", "operator", "decltype", "alignas", "defined", "sizeof", "noexcept", "requires", "static_assert"}


def without_arguments(text):
    """Text without template arguments, which may have parentheses of their own."""
    shorter = None
    while shorter != text:
        shorter, text = text, re.sub(r"<[^<>]*>", "", text)
    return text


def declared_name(declaration):
    """The name that a declaration at namespace scope declares, or None: of a member, an operator, a specialisation."""
    declaration = re.sub(r"\[\[.*?\]\]", "", declaration)
    head = re.match(r"(?:typedef |enum class |enum |class |struct |union |concept )+(\w+)(.*)", declaration)
    if head and "(" not in head[2].split("{")[0].split(":")[0]:
        return head[1] if not head[2].startswith("<") else None
    before = re.split(r"[(={;\[]", without_arguments(declaration), maxsplit=1)[0]
    words = re.findall(r"[\w:~]+", before)
    if not words or "::" in words[-1] or "operator" in before or words[-1] in KEYWORDS:
        return None
    return words[-1]


def declarations(lines):
    """The declarations at namespace scope, up to where their names are known, each with its namespace and whether only
    this file sees it."""
    namespaces, pending = [], ""
    for line in lines:
        opened = re.match(r"(?:inline )?namespace ([\w:]*) ?{$", line)
        if opened:
            namespaces.append(opened[1])
        elif line.startswith("}  // namespace") and namespaces:
            namespaces.pop()
        if pending:
            pending += " " + line.strip()
        elif re.match(r"[A-Za-z_\[]", line) and not re.match(r'(inline )?namespace\b|extern "C"', line):
            pending = line
        text = re.sub(r"//.*", "", pending)
        if text.startswith("template"):
            text = re.sub(r"^template\s*(requires\b.*?\)\s+)?", "", without_arguments(text))
        if re.search(r"[({;=]", text):
            yield text, "::".join(filter(None, namespaces)), "" in namespaces or text.startswith("static ")
            pending = ""


class Text:
    """What one file says: the names that it declares, of its `own` and for others, as triples of name, namespace and
    what the name stands for; which of them are `functions`; the `spaces` (namespaces) that it opens; its macros; and
    the headers that it includes, the project's and `foreign` ones."""

    def __init__(self, path):
        text = path.read_text(encoding="utf-8")
        self.own, self.declared, self.functions = set(), set(), set()
        for declaration, namespace, is_own in declarations(text.splitlines()):
            # The same using-declaration in two files names one thing.
            using = re.match(r"using (?:[\w<>, ]+::)*(\w+)\s*;|using (\w+) =.*;", declaration)
            name = using[1] or using[2] if using else declared_name(declaration)
            if not name or declaration.startswith("using namespace"):
                continue
            (self.own if is_own else self.declared).add((name, namespace, declaration if using else path))
            if re.search(rf"\b{name}\s*\(", declaration):
                self.functions.add((name, path))
        opened = re.findall(r"^namespace ([\w:]+) {", text, re.MULTILINE)
        # strata::hlo opens strata too.
        self.spaces = {name[:end] for name in opened for end in [*(at.start() for at in re.finditer("::", name)), None]}
        self.macros = set(re.findall(r"^#define (\w+)", text, re.MULTILINE))
        self.macros -= set(re.findall(r"^#undef (\w+)", text, re.MULTILINE))
        names = re.findall(r'^#include "(.*)"', text, re.MULTILINE)
        headers = [(folder / name).resolve() for name in names for folder in (SOURCE_ROOT, path.parent)]
        self.headers = [header for header in headers if header.is_file()]
        self.foreign = set(re.findall(r"^#include (<.*>)", text, re.MULTILINE))


text_of = functools.cache(Text)


@functools.cache
def reachable(path):
    """All headers of the project that a file includes, directly or not."""
    found, todo = set(), [path]
    while todo:
        for header in text_of(todo.pop()).headers:
            if header not in found:
                found.add(header)
                todo.append(header)
    return found


class Source:
    """A file to compile: what it declares of its own; all that it and its headers declare, by name; and its words."""

    def __init__(self, path):
        text, mine = path.read_text(encoding="utf-8"), text_of(path)
        self.path, self.lines, self.words = path, text.count("\n"), set(re.findall(r"\w+", text))
        self.qualifiers = set(re.findall(r"(\w+)::", text))
        self.namespaces, self.own = mine.spaces, set(mine.own)
        self.own_functions = {name for name, _ in mine.functions} & {name for name, _, _ in mine.own}
        # A constant in a function of another file would shadow one of this file.
        constants = {name for name, _, meaning in mine.own if meaning == path and re.match("k[A-Z]", name)}
        self.everywhere = constants | mine.macros
        self.seen, self.foreign, self.spaces, self.functions = {}, set(), set(), set()
        for said in map(text_of, {path} | reachable(path)):
            self.foreign |= said.foreign
            self.spaces |= said.spaces
            self.functions |= said.functions
            for name, namespace, meaning in said.own | said.declared:
                self.seen.setdefault(name, set()).add((namespace, meaning))
        # What a using-directive makes visible is so in the whole batch.
        for opened in re.findall(r"^using namespace ([\w:]+);", text, re.MULTILINE):
            self.own |= {(name, space, meaning) for space in self.namespaces
                         for name, meanings in self.seen.items() for namespace, meaning in meanings
                         if f"::{namespace}".endswith(f"::{opened}")}
        self.used = {name: meanings for name, meanings in self.seen.items() if name in self.words}


def is_inside(inner, outer):
    return f"{inner}::".startswith(f"{outer}::") or not outer


def is_ambiguous(own, other):
    """Whether a name of `own` alone stands for something else in `other`, where both are seen alike."""
    # Arguments of a type of any namespace make its functions candidates.
    if any(name in own.own_functions for name, _ in other.functions - own.functions):
        return True
    return not own.everywhere.isdisjoint(other.words) or any(
        namespace == other_namespace and meaning != other_meaning
        for name, namespace, meaning in own.own
        for other_namespace, other_meaning in other.seen.get(name, ()))


def is_hidden(used, other):
    """Whether `other` declares, in a namespace of `used`, a name that stands there for something further out."""
    def is_around(namespace):
        return any(is_inside(mine, namespace) for mine in used.namespaces)

    for space in other.spaces - used.spaces:
        outer, _, name = space.rpartition("::")
        if name in used.qualifiers and is_around(outer):
            return True
    return any(namespace != inner and is_inside(inner, namespace) and (inner, meaning) not in meanings and
               is_around(inner)
               for name, meanings in used.used.items()
               for inner, meaning in other.seen.get(name, ())
               for namespace, _ in meanings)


def can_share(one, other):
    return not any(is_ambiguous(a, b) or is_hidden(a, b) for a, b in ((one, other), (other, one)))


def batches(paths, limit):
    """Each file goes to the first batch that has room for it and clashes with none of its names. Those with the most
    headers of libraries come first: these take the longest to parse, and so share batches."""
    result = []
    for source in sorted(map(Source, paths), key=lambda source: (-len(source.foreign), source.path)):
        for batch in result:
            if sum(file.lines for file in batch) + source.lines <= limit and all(can_share(source, file)
                                                                                 for file in batch):
                batch.append(source)
                break
        else:
            result.append([source])
    return [[source.path for source in batch] for batch in result]


def main():
    for batch in batches([pathlib.Path(name) for name in sys.argv[2:]], int(sys.argv[1])):
        print(" ".join(str(path) for path in batch))


if __name__ == "__main__":
    main()
