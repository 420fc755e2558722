"""Checks of the scripts here: each runs, whatever became of those before it."""
import traceback


def tried(label, check, *arguments):
    """Runs a check, and prints what it says after its label; 1 where it fails, else 0."""
    try:
        said = check(*arguments)
    except Exception:  # the other checks still run
        print(label, "FAILED\n" + traceback.format_exc(), flush=True)
        return 1
    print(label, said or "ok", flush=True)
    return 0
