"""Results of the superoptimizer: what was found, why it is right, and how to call it."""

from __future__ import annotations

import functools
import html
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from strata import _core, arguments, arrays
from strata._core import Error
from strata.arrays import ArraySpec
from strata.module import device_for, specs_of

#: What a folder holds beside the files of `strata optimize -o`.
_SUMMARY = "strata.json"
#: The file of a table of sizes (kernel_table.py); `strata run FOLDER` reads it too.
TABLE = "sizes.json"
_FORMAT = 1


@dataclass(frozen=True)
class Proof:
    """Why the µGraph computes the program."""

    words: str  #: the argument, in a sentence
    tests: int  #: random tests that were evaluated
    error_bound: float  #: the probability that another program would pass them
    method: str  #: "finite fields" or "solver"

    def __str__(self) -> str:
        return self.words


class Report:
    """The report of a search as a page: it shows itself in a notebook; `html` is its text, `data` report.json."""

    def __init__(self, page: str, data: dict[str, Any]):
        self.html, self.data = page, data

    def _repr_html_(self) -> str:
        # Its scripts run, and reach nothing of the notebook.
        title = html.escape(f"Report of {self.data.get('program', 'a search')}")
        return (
            f'<iframe title="{title}" sandbox="allow-scripts" srcdoc="{html.escape(self.html)}" '
            'style="width:100%;height:720px;border:0"></iframe>'
        )

    def save(self, path: str | os.PathLike) -> None:
        """Writes the page, which needs no other file. Raises Error where it cannot be written."""
        with arguments.writing(path), open(path, "w", encoding="utf-8") as file:
            file.write(self.html)


class Kernel:
    """An optimised program. Call it with one array for each input of the program, in its order: on the first GPU, whose
    architecture must be `target`, the found kernels run on the caller's current stream, as a Module's do. Arrays in the
    host's memory are computed by the reference executor: slowly, in single precision with storage rounded to the
    tensors' types, to try a result on a laptop. The result is a list with one array for each output."""

    def __init__(self, files: dict[str, bytes], summary: dict[str, Any]):
        self._files, self._summary = files, summary
        self._functions: dict[bool, _core.Function] = {}
        self._adapters: dict[str, Any] = {}

    @property
    def target(self) -> str:
        """The architecture of its code: "sm_90a"."""
        return self._summary["target"]

    @property
    def headline(self) -> str:
        """What was gained, in a sentence."""
        return self._summary["headline"]

    @property
    def notes(self) -> list[str]:
        """What was done otherwise than planned, one line each: no compiler for cubins, nothing measured."""
        return self._summary["notes"]

    @property
    def program(self) -> str:
        """The program as it was given, as text."""
        return self._text("program.strata")

    @property
    def mugraph(self) -> str:
        """The best µGraph, as text."""
        return self._text("best.strata")

    @property
    def source(self) -> str:
        """Its CUDA C++."""
        return self._text("best.cu")

    @property
    def proof(self) -> Proof:
        found = self.report.data.get("verification", {})
        tests, bound = found.get("tests", 0), found.get("error_bound", 0.0)
        return Proof(self._summary["proof"], tests, bound, found.get("method", "finite fields"))

    @property
    def report(self) -> Report:
        return Report(self._text("report.html"), json.loads(self._text("report.json")))

    @property
    def inputs(self) -> list[ArraySpec]:
        """What it takes, in the program's order."""
        return self._specs[0]

    @property
    def outputs(self) -> list[ArraySpec]:
        """What it gives."""
        return self._specs[1]

    @functools.cached_property
    def _specs(self) -> tuple[list[ArraySpec], list[ArraySpec]]:
        return specs_of(self.function_on(False))

    def config(self) -> str:
        """The choice as text: `strata.optimize(program, config=text)` proves and compiles it again without a search."""
        return self._summary["config"]

    def save(self, folder: str | os.PathLike) -> None:
        """Writes what `strata optimize -o` writes; strata.load reads it, and `strata run FOLDER` takes it. Raises Error
        where it cannot be written."""
        summary = json.dumps(self._summary, indent=1, ensure_ascii=False).encode()
        with arguments.writing(folder):
            os.makedirs(folder, exist_ok=True)
            if os.path.isfile(os.path.join(folder, TABLE)):
                os.remove(os.path.join(folder, TABLE))  # of a table that was there before
            for name, data in {**self._files, _SUMMARY: summary}.items():
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(data)

    def torch_operator(self, name: str | None = None, *, backward: Any = None) -> Any:
        """The kernel as an operator of torch, which is called with tensors on the processor or the first GPU and gives
        one tensor, or a tuple. torch.compile, with any backend, and torch.export keep it as one call; so a graph that
        it is in has no break.

        name: "namespace::name"; None: one in the namespace strata, made of the program's name and a digest. It is the
            same in each process, so that an exported program finds it there after strata.load(…).torch_operator().
        backward: what computes gradients: a Kernel, or a function of tensors. It takes the inputs, then a gradient for
            each output, and gives one for each floating-point input. Without it, asking for a gradient is an error.

        The operator, and with it the kernel and its memory, lives as long as the process. Raises Error where the name
        is none or another's, or backward takes or gives other types."""
        from strata import torch_operator

        identity = "\n".join((self.target, self.program, self.mugraph, self.source))
        stem = self.report.data.get("program", "kernel")
        return torch_operator.register(self, identity, stem, name, backward, ("CPU", "CUDA"))

    def tvm_ffi_function(self) -> Any:
        """The kernel as a function of tvm-ffi (pip install apache-tvm-ffi). It takes the inputs, then an array for each
        output, and returns nothing; arrays lie on the processor or the first GPU. Raises Error where the package is
        missing."""
        from strata import tvm_function

        return tvm_function.convert(self)

    def __call__(self, *given: Any, out: list[Any] | None = None) -> list[Any]:
        """Runs it. `out`: arrays for the results, in place of new ones. Raises Error where the arrays are not those of
        the program or want gradients, or there is no code for the GPU."""
        arrays.refuse_gradients(given)
        return self.run(given, out)

    def run(self, given: Sequence[Any], out: list[Any] | None = None) -> list[Any]:
        """The same of arrays whose gradients are the caller's to care for."""
        framework = arrays.framework_of(given)
        on_gpu = framework == "cupy" or framework == "torch" and any(getattr(one, "is_cuda", False) for one in given)
        adapter = self._adapter(framework, on_gpu)
        if len(given) != len(adapter.inputs):
            raise arrays.wrong_number("the program", adapter.inputs, len(given))
        places, kept = adapter.addresses(given)
        results = adapter.empty_results() if out is None else out
        function = self.function_on(on_gpu)
        to = [adapter.result_address(one) for one in results] if out is None else arrays.given_results(adapter, out)
        function.call(places, to, adapter.stream())
        del kept
        return adapter.finished(results) if out is None else results

    def __reduce__(self):
        """Pickled and copied as what save writes."""
        return _restored, (self._files, self._summary)

    def __repr__(self) -> str:
        return f"<strata.Kernel for {self.target}: {self.headline}>"

    def _text(self, name: str) -> str:
        return self._files[name].decode()

    def function_on(self, on_gpu: bool) -> _core.Function:
        """What is called with addresses: the kernels on the first GPU, or the reference executor on the processor.
        Raises Error where there is no code for the GPU."""
        if on_gpu not in self._functions:
            cubin = self._files.get(f"best.{self.target}.cubin", b"")
            device = device_for("gpu") if on_gpu else None
            if device is not None and device.architecture != self.target:
                raise Error(
                    f"the code is for {self.target}, and {device.name} is {device.architecture}\n"
                    "  optimize the program on this machine, or with target="
                )
            if device is not None and not cubin and "best.launch.json" in self._files:
                missing = [note for note in self.notes if note.startswith("no cubin")]
                if missing:
                    raise Error(missing[0])
            self._functions[on_gpu] = _core.Function.load_graph(
                self.mugraph, device, cubin, self._text("best.launch.json")
            )
        return self._functions[on_gpu]

    def _adapter(self, framework: str, on_gpu: bool):
        key = f"{framework} {on_gpu}"
        if key not in self._adapters:
            function = self.function_on(on_gpu)
            inputs, results = specs_of(function)
            self._adapters[key] = arrays.adapter(framework, inputs, results, on_gpu, function.alignment)
        return self._adapters[key]


def load(folder: str | os.PathLike) -> Any:
    """The Kernel, or the KernelTable, that its save wrote to a folder. Raises Error where it holds none, or one of another
    format."""
    from strata.kernel_table import load_table

    if os.path.isfile(os.path.join(folder, TABLE)):
        return load_table(folder, _load_kernel)
    return _load_kernel(folder)


def _load_kernel(folder: str | os.PathLike) -> Kernel:
    try:
        with open(os.path.join(folder, _SUMMARY), encoding="utf-8") as file:
            summary = json.load(file)
        _check_format(f"'{folder}'", summary)
        files = {}
        for name in summary["files"]:
            if os.path.basename(name) != name:
                raise Error(
                    f"'{folder}' names the file '{name}', which is not its own\n  load a folder that Kernel.save wrote"
                )
            with open(os.path.join(folder, name), "rb") as file:
                files[name] = file.read()
            if not name.endswith(".cubin"):  # all others are texts
                _check_text(name, files[name])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as why:
        raise Error(f"'{folder}' holds no kernel that was saved: {why}\n  Kernel.save writes one") from None
    return Kernel(files, summary)


def _check_text(name: str, data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"'{name}' is no text") from None


def _check_format(what: str, summary: dict[str, Any]) -> None:
    if summary.get("format") != _FORMAT:
        raise Error(
            f"{what} is of format {summary.get('format')}; this version reads {_FORMAT}\n"
            "  save the kernel with this version, or load it with the one that saved it"
        )


def _restored(files: dict[str, bytes], summary: dict[str, Any]) -> Kernel:
    _check_format("the pickled kernel", summary)
    return Kernel(files, summary)


def _in_python(note: str) -> str:
    """A note with the arguments of optimize in place of the command line's options."""
    return note.replace("--no-cache", 'cache=""').replace("--cache", "cache=")


def summary_of(job: _core.OptimizeJob, more_notes: list[str]) -> dict[str, Any]:
    """What load reads beside the files."""
    return {
        "format": _FORMAT, "strata": _core.build_identity(), "target": job.target, "headline": job.headline,
        "proof": job.proof, "config": job.config, "notes": [*map(_in_python, job.notes), *more_notes],
        "files": sorted(job.files),
    }  # fmt: skip
