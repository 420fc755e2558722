"""What `strata optimize -o FOLDER` wrote, called as users call it: by the package's launcher. Needs the package `strata`
(docs/python.md), whose build may be another than the folder's."""
import strata.kernel


def kernel_of(folder, target="sm_90a"):
    """A strata.Kernel of the folder's best µGraph."""
    files = {one.name: one.read_bytes() for one in folder.iterdir() if one.name.startswith("best.")}
    return strata.kernel.Kernel(files, {"target": target, "headline": folder.name, "notes": []})
