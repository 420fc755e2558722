"""How many cases the tests run."""

import os


def in_rounds(*cases):
    """The cases that a test runs: all in `make test-all` (STRATA_TEST_ROUNDS=all), the first third elsewhere."""
    return list(cases if os.environ.get("STRATA_TEST_ROUNDS") == "all" else cases[:(len(cases) + 2) // 3])
