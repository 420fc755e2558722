#!/usr/bin/env python3
"""Which files cmake/batch_sources.py puts into one batch: small sources of all kinds of clashes."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "cmake" / "batch_sources.py"


def own(declaration):
    return f"namespace strata {{\nnamespace {{\n\n{declaration}\n\n}}  // namespace\n}}  // namespace strata\n"


def in_strata(text):
    return f"namespace strata {{\n\n{text}\n\n}}  // namespace strata\n"


class BatchSources(unittest.TestCase):
    def batches(self, files, lines=1000):
        """The batches of the .cpp files, as lists of their names."""
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                pathlib.Path(root, name).write_text(text, encoding="utf-8")
            paths = [str(pathlib.Path(root, name)) for name in files if name.endswith(".cpp")]
            done = subprocess.run([sys.executable, "-B", SCRIPT, str(lines), *paths], capture_output=True, text=True,
                                  check=True)
        return [[pathlib.Path(path).name for path in line.split()] for line in done.stdout.splitlines()]

    def assert_apart(self, files):
        self.assertEqual(self.batches(files), [["a.cpp"], ["b.cpp"]])

    def assert_together(self, files):
        self.assertEqual(self.batches(files), [["a.cpp", "b.cpp"]])

    def test_files_without_a_clash_share_a_batch(self):
        self.assert_together({"a.cpp": own("int one(int x) { return x; }"),
                              "b.cpp": own("int two(int x) { return x; }")})

    def test_the_same_name_in_unnamed_namespaces(self):
        for declaration in ("int f(int x) { return x; }", "template <class T>\nT f(T x) {\n  return x;\n}",
                            "std::map<int, std::function<int(int)>> f() {\n  return {};\n}", "constexpr int f = 1;",
                            "struct f {\n  int x;\n};", "using f = int;", "[[nodiscard]] const int* f(\n    int x) {}",
                            "enum class f : int { A };"):
            with self.subTest(declaration):
                self.assert_apart({"a.cpp": own(declaration), "b.cpp": own("long f(long x) { return x; }")})

    def test_what_a_header_declares_for_all(self):
        self.assert_apart({"f.h": in_strata("int f(int x);"),
                           "a.cpp": '#include "f.h"\n' + in_strata("int g() { return f(1); }"),
                           "b.cpp": own("int f(int x) { return x; }")})

    def test_functions_that_arguments_find_elsewhere(self):
        self.assert_apart({"f.h": "namespace strata::hlo {\nint f(Shape x);\n}  // namespace strata::hlo\n",
                           "a.cpp": '#include "f.h"\n', "b.cpp": own("int f(hlo::Shape x) { return 1; }")})

    def test_members_and_locals_are_no_clash(self):
        self.assert_together({"a.cpp": own("struct A {\n  int f() const { return 1; }\n};"),
                              "b.cpp": own("int f() {\n  int x = 1;\n  return x;\n}")})

    def test_the_same_using_declaration_is_no_clash_another_one_is(self):
        self.assert_together({"a.cpp": own("using hlo::Shape;"), "b.cpp": own("using hlo::Shape;")})
        self.assert_apart({"a.cpp": own("using hlo::Shape;"), "b.cpp": own("using ir::Shape;")})

    def test_a_name_further_inside_hides_one_that_is_used(self):
        inner = "namespace strata::hlo {\nstruct Decision {};\n}  // namespace strata::hlo\n"
        outer = in_strata("struct Decision {};")
        using = "namespace strata::hlo {\nDecision decide();\n}  // namespace strata::hlo\n"
        files = {"inner.h": inner, "outer.h": outer, "a.cpp": '#include "inner.h"\n' + using}
        self.assert_apart({**files, "b.cpp": '#include "outer.h"\n' + using.replace("decide", "other")})
        self.assert_together({**files, "b.cpp": '#include "outer.h"\n' + in_strata("Decision other();")})

    def test_a_namespace_further_inside_hides_one_that_is_used(self):
        self.assert_apart({"t.h": "namespace strata::testing {\nint x();\n}  // namespace strata::testing\n",
                           "a.cpp": '#include "t.h"\n', "b.cpp": own("int f() { return testing::HasSubstr(); }")})

    def test_using_directives_reach_all_files(self):
        helpers = "namespace strata::helpers {\nint f(int x);\n}  // namespace strata::helpers\n"
        self.assert_apart({"h.h": helpers, "a.cpp": '#include "h.h"\n' + own("using namespace helpers;"),
                           "b.cpp": own("int f(int x) { return x; }")})

    def test_macros_and_constants(self):
        self.assert_apart({"a.cpp": "#define SIZE 3\n", "b.cpp": own("int f() { return SIZE; }")})
        self.assert_together({"a.cpp": "#define SIZE 3\n#undef SIZE\n", "b.cpp": own("int f() { return SIZE; }")})
        self.assert_apart({"a.cpp": own("constexpr int kLine = 3;"),
                           "b.cpp": own("int f() {\n  constexpr int kLine = 4;\n  return kLine;\n}")})

    def test_batches_have_room_for_so_many_lines(self):
        files = {f"{name}.cpp": own(f"int {name}();") for name in "abcde"}
        lines = own("").count("\n")
        self.assertEqual([len(batch) for batch in self.batches(files, 2 * lines)], [2, 2, 1])
        self.assertEqual([len(batch) for batch in self.batches(files, 1)], [1] * 5)


if __name__ == "__main__":
    unittest.main()
