"""python -m strata, and the command `strata` of the package: docs/command-line.md."""

from __future__ import annotations

import sys

from strata import command_line


def main() -> int:
    return command_line.run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
