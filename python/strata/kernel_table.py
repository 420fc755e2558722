"""Results of programs with dims: kernels for several sizes, of which the inputs' shapes choose one."""

from __future__ import annotations

import os
from typing import Any, Sequence

from strata import _core, arguments, arrays
from strata._core import Error
from strata.kernel import TABLE, Kernel


class KernelTable:
    """An optimised program whose sizes have names, at the sizes of a table. Call it with arrays: their shapes choose the
    kernel. Other sizes are padded to the next entry, where that changes no result, and the results are cut; what
    cannot be done so raises Error. `kernels` are the entries' Kernels, and `sizes` and `origins` say for which sizes
    and of what each was made."""

    def __init__(self, table: str, kernels: Sequence[Kernel], file: str = "<table>"):
        self._text, self.kernels = table, list(kernels)
        self._table = _core.SizeTable(table, file)
        self.sizes: list[dict[str, int]] = [dict(one[0]) for one in self._table.entries]
        self.origins: list[str] = [one[3] for one in self._table.entries]

    @property
    def program(self) -> str:
        """The program with its dims, as text."""
        return self._table.program

    @property
    def target(self) -> str:
        return self.kernels[0].target

    @property
    def notes(self) -> list[str]:
        """What was done otherwise than planned, of all entries."""
        return [f"{self._named(i)}: {note}" for i, one in enumerate(self.kernels) for note in one.notes]

    def kernel(self, **sizes: int) -> Kernel:
        """The entry of exactly these sizes. Raises Error where there is none."""
        for of, kernel in zip(self.sizes, self.kernels):
            if of == sizes:
                return kernel
        raise Error(f"the table has no entry for {sizes}\n  its entries are {self.sizes}")

    def dispatch(self, *shapes: Sequence[int]) -> tuple[dict[str, int], str]:
        """The sizes of the entry that serves inputs of these shapes, and in words how they are padded for it; empty:
        they are not."""
        entry, _, padding, _, _ = self._table.dispatch([list(one) for one in shapes])
        return self.sizes[entry], padding

    def __call__(self, *given: Any, out: list[Any] | None = None) -> list[Any]:
        """Runs the entry that serves the arrays, as Kernel does. `out`: arrays for the results, in place of new ones."""
        framework = arrays.framework_of(given)
        entry, _, padding, steps, shapes = self._table.dispatch([list(one.shape) for one in given])
        kernel = self.kernels[entry]
        if not padding:
            return kernel(*given, out=out)
        if out is not None:
            raise Error(f"out= takes no results of padded inputs: {padding}\n  leave it out, or make an entry for the size")
        wide = []
        for array, fills in zip(given, steps):
            for fill, shape in fills:
                array = arrays.padded(framework, array, tuple(shape), fill)
            wide.append(array)
        results = kernel(*wide)
        return [one[tuple(slice(0, size) for size in shape)] for one, shape in zip(results, shapes)]

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the table and a folder for each entry; strata.load reads it, and `strata run FOLDER` takes it. Raises
        Error where it cannot be written."""
        with arguments.writing(folder):
            os.makedirs(folder, exist_ok=True)
            for (_, name, _, _), kernel in zip(self._table.entries, self.kernels):
                kernel.save(os.path.join(folder, name))
            # Last: a folder with a table is whole.
            with open(os.path.join(folder, TABLE), "w", encoding="utf-8") as file:
                file.write(self._text)

    def __reduce__(self):
        """Pickled and copied as what save writes."""
        return KernelTable, (self._text, self.kernels)

    def __repr__(self) -> str:
        return f"<strata.KernelTable for {self.target}: {', '.join(self._named(i) for i in range(len(self.sizes)))}>"

    def _named(self, entry: int) -> str:
        return entry_name(self.sizes[entry])


def entry_name(sizes: dict[str, int]) -> str:
    """ "tokens=16,heads=8": what an entry's folder is called."""
    return ",".join(f"{name}={size}" for name, size in sorted(sizes.items()))


def load_table(folder: str | os.PathLike, load_kernel) -> KernelTable:
    path = os.path.join(folder, TABLE)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    entries = _core.SizeTable(text, path).entries
    return KernelTable(text, [load_kernel(os.path.join(folder, one[1])) for one in entries], path)
