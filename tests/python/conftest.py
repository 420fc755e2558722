"""The package of the release build, whatever else is installed, and Python's own answer to Ctrl-C."""

import pathlib
import signal
import sys

PACKAGE = pathlib.Path(__file__).parents[2] / "build" / "release" / "python"
sys.path.insert(0, str(PACKAGE))

# A shell without job control ignores it for what it starts in the background, and Python leaves that as it is.
signal.signal(signal.SIGINT, signal.default_int_handler)
