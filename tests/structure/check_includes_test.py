#!/usr/bin/env python3
"""Plants violations in a tree of its own and sees that scripts/check_includes.py finds each, and nothing else."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECKER = pathlib.Path(__file__).parents[2] / "scripts" / "check_includes.py"

CLEAN = {
    "src/support/error.h": "#include <string>\n",
    "src/ir/graph.h": '#include "support/error.h"\n#include "not_ours.h"\n',
    "src/superopt/verify/verify.h": '#include "ir/graph.h"\n',
    "src/superopt/search/search.h": '#include "superopt/verify/verify.h"\n',
    "src/superopt/search/rules/rule.h": '#include "../search.h"\n',
    "src/superopt/optimize/plan.h": '#include "superopt/verify/verify.h"\n',
    "src/superopt/codegen/emit.h": '#include "superopt/optimize/plan.h"\n',
    "src/superopt/superoptimize.h": '#include "superopt/search/search.h"\n',
    "src/emitters/program.h": '#include "emitters/fusion/pass.h"\n',
    "src/emitters/fusion/pass.h": '#include "emitters/kinds/sort/sort.h"\n',
    "src/emitters/fusion/pass_test.cpp": '#include "emitters/fusion/pass.h"\n#include "emitters/program.h"\n',
    "src/emitters/kinds/plan.h": '#include "emitters/kinds/sort/sort.h"\n#include "emitters/elemental/types.h"\n',
    "src/emitters/kinds/sort/sort.h": '#include "emitters/kinds/kernel.h"\n',
    "src/emitters/kinds/kernel.h": "\n",
    "src/emitters/kinds/testing.h": '#include "emitters/program.h"\n',
    "src/emitters/elemental/types.h": '#include "emitters/dialect/dialect.h"\n',
    "src/emitters/dialect/dialect.h": "\n",
    "src/hlo/text.h": '#include "superopt/superoptimize.h"\n',
    "tools/strata/main.cpp": '#include "superopt/superoptimize.h"\n#include "hlo/text.h"\n',
    "tools/strata/full/run.h": '#include "emitters/program.h"\n',
    "include/strata/strata.h": "#include <memory>\n",
}


class CheckIncludes(unittest.TestCase):
    def check(self, planted):
        """The violations as FILE:LINE, after the exit status was seen to agree with them."""
        with tempfile.TemporaryDirectory() as root:
            for name, text in {**CLEAN, **planted}.items():
                file = pathlib.Path(root, name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            result = subprocess.run([sys.executable, CHECKER, root], capture_output=True, text=True)
        found = [":".join(line.split(":")[:2]) for line in result.stdout.splitlines()[:-1]]
        self.assertEqual(result.returncode, 1 if found else 0, result.stdout + result.stderr)
        return found

    def test_clean_tree(self):
        self.assertEqual(self.check({}), [])

    def test_lower_folder_includes_higher(self):
        planted = {"src/support/bad.cpp": '#include <string>\n\n#include "ir/graph.h"\n'}
        self.assertEqual(self.check(planted), ["src/support/bad.cpp:3"])

    def test_writes_a_file_by_itself(self):
        planted = {"src/support/bad.cpp": "#include <fstream>\nstd::ofstream file(path);\n",
                   "tools/strata/bad.cpp": "int file = ::open(path, O_CREAT | O_TRUNC);\n",
                   "src/support/good_test.cpp": "std::ofstream file(path);\n",
                   "src/support/good.cpp": "std::ifstream file(path);\n"}
        self.assertEqual(self.check(planted), ["src/support/bad.cpp:2", "tools/strata/bad.cpp:1"])

    def test_opens_a_library_by_itself(self):
        planted = {"src/ir/bad.cpp": "void* library = dlopen(path, RTLD_NOW);\n",
                   "src/runtime/cuda_libraries.cpp": "void* library = dlopen(path, RTLD_NOW);\n"}
        self.assertEqual(self.check(planted), ["src/ir/bad.cpp:1"])

    def test_verifier_includes_search(self):
        planted = {"src/superopt/verify/bad.cpp": '#include "superopt/search/search.h"\n'}
        self.assertEqual(self.check(planted), ["src/superopt/verify/bad.cpp:1"])

    def test_later_stage_includes_search(self):
        for stage in "optimize", "codegen":
            planted = {f"src/superopt/{stage}/bad.h": '  #  include "superopt/search/search.h"\n'}
            self.assertEqual(self.check(planted), [f"src/superopt/{stage}/bad.h:1"])

    def test_stage_includes_the_pipeline_over_it(self):
        planted = {"src/superopt/search/bad.h": '#include "superopt/superoptimize.h"\n'}
        self.assertEqual(self.check(planted), ["src/superopt/search/bad.h:1"])

    def test_commands_of_builds_without_emitters(self):
        planted = {"tools/strata/bad.cpp": '#include "main.h"\n#include "emitters/program.h"\n#include "full/run.h"\n',
                   "tools/strata/core/bad.cpp": '#include "../full/run.h"\n',
                   "src/report/bad.cpp": '#include "hlo/text.h"\n'}
        self.assertEqual(sorted(self.check(planted)), ["src/report/bad.cpp:1", "tools/strata/bad.cpp:2",
                                                       "tools/strata/bad.cpp:3", "tools/strata/core/bad.cpp:1"])

    def test_the_extension_of_builds_without_emitters(self):
        planted = {"src/compiler/core/good.h": '#include "hlo/text.h"\n',
                   "src/compiler/core/bad.h": '#include "emitters/program.h"\n',
                   "src/python/full/good.h": '#include "emitters/program.h"\n',
                   "src/python/bad.cpp": '#include "compiler/core/good.h"\n#include "python/full/good.h"\n'
                                         '#include "emitters/program.h"\n'}
        self.assertEqual(sorted(self.check(planted)), ["src/compiler/core/bad.h:1", "src/python/bad.cpp:2",
                                                       "src/python/bad.cpp:3"])

    def test_rooms_of_the_emitters_make_no_cycle(self):
        upwards = {"elemental": "fusion/pass.h", "kinds": "fusion/pass.h", "kinds/sort": "program.h",
                   "dialect": "elemental/types.h", "transforms": "elemental/types.h", "fusion": "program.h"}
        for room, header in upwards.items():
            planted = {f"src/emitters/{room}/bad.cpp": f'#include "emitters/{header}"\n'}
            self.assertEqual(self.check(planted), [f"src/emitters/{room}/bad.cpp:1"])

    def test_tests_of_other_libraries_keep_the_order(self):
        planted = {"src/superopt/search/a_test.cpp": '#include "superopt/superoptimize.h"\n',
                   "src/support/a_test.cpp": '#include "emitters/program.h"\n'}
        self.assertEqual(self.check(planted), ["src/superopt/search/a_test.cpp:1", "src/support/a_test.cpp:1"])

    def test_code_includes_a_test(self):
        planted = {"src/emitters/bad.cpp": '#include "emitters/kinds/testing.h"\n'}
        self.assertEqual(self.check(planted), ["src/emitters/bad.cpp:1"])

    def test_other_spellings(self):
        planted = {"src/support/bad.h": '#include <ir/graph.h>\n#include "../ir/graph.h"\n'}
        self.assertEqual(self.check(planted), ["src/support/bad.h:1", "src/support/bad.h:2"])

    def test_public_header_includes_src(self):
        planted = {"include/strata/bad.h": '#include "ir/graph.h"\n'}
        self.assertEqual(self.check(planted), ["include/strata/bad.h:1"])

    def test_unknown_folder(self):
        self.assertEqual(self.check({"src/misc/bad.h": "\n"}), ["src/misc/bad.h:1"])

    def test_columns_are_characters(self):
        planted = {"src/ir/wide.cpp": "//" + "µ" * 118 + "\n//" + "µ" * 119 + "\n"}
        self.assertEqual(self.check(planted), ["src/ir/wide.cpp:2"])

    def test_long_file(self):
        self.assertEqual(self.check({"tests/a_test.cpp": "\n" * 600, "tests/b_test.cpp": "\n" * 601}),
                         ["tests/b_test.cpp:601"])

    def test_golden_files_may_be_long(self):
        self.assertEqual(self.check({"tests/golden/kernel.cu": "x" * 500 + "\n" * 700}), [])


if __name__ == "__main__":
    unittest.main()
