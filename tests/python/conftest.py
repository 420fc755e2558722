"""The package of the release build, whatever else is installed."""

import pathlib
import sys

PACKAGE = pathlib.Path(__file__).parents[2] / "build" / "release" / "python"
sys.path.insert(0, str(PACKAGE))
