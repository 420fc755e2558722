#!/usr/bin/env python3
"""Times modules that JAX lowers, at sizes of models, by Strata and by XLA on one GPU, and compares their results.

usage: modules.py STRATA [--only SUBSTRING,...] [--part I/N] [--list] [--hlo FOLDER] [--results FILE.json [--merge]]
                  [--search-seconds N] [--timeout SECONDS] [--tf32] [--device gpu|host] [--small]
                  [--lowered-for PLATFORM] [--jobs N]

Needs JAX, for CUDA but with --list, --hlo and --device host. The modules are those of module_families.py,
module_operators.py, module_odd_*.py, module_fresh_*.py, module_more_*.py, module_later_*.py, module_outside_*.py,
module_seventh_*.py, module_eighth_*.py, module_ninth_*.py, module_tenth_*.py, module_eleventh_*.py,
module_element_loops.py, module_linear_algebra.py and module_shared_operands.py.
Strata's time is that of a replayed CUDA graph (strata run --profile); where the interpreter runs a step, there is
none, and a note says that it is the time of the steps. XLA's is how long streams of the GPU are busy in a call, by
JAX's profiler, so without the pauses between kernels; the time between the ends of calls that are issued back to back
stands beside it, in parentheses, and takes its place where the profiler shows no stream. Both keep arrays in the
caches that hold them. Strata never computes products of f32 in TF32; modules whose floats are all f32 get the
precision "highest" from XLA too, unless --tf32.

Cold compile times stand beside them: `strata emit` to cubins, its start included, without a search and with an empty
cache, and XLA's compile() of the lowered module without a persistent cache. With --device host the latter is
XLA:CPU's, which is another back end.

Both get the same random arguments. What results may differ by is relative to the largest magnitude of an output, and,
for the whole of it, to its norm. Where JAX's lowering for GPUs calls what HLO does not define, Strata gets the module
as lowered for CPUs, which a note says.

--jobs: so many processes side by side, spread over the GPUs that are there, for long lists of modules. All that uses a
GPU for long, what compilers measure included, is done by one of its processes at a time. The processor is shared, which
makes compile times longer on both sides.
"""
import argparse
import datetime
import gc
import importlib
import importlib.metadata
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402

TABLES = ["families", "operators", "eighth_layers", "eighth_odds", "eighth_steps", "element_loops", "eleventh_layouts",
          "eleventh_moves", "fresh_layers", "fresh_shapes", "later_layers", "later_odds", "later_steps",
          "linear_algebra", "more_layers", "more_steps", "ninth_layers", "ninth_steps", "odd_blocks", "odd_layers",
          "odd_models", "odd_operators", "odd_shapes", "odd_windows", "outside_layers", "outside_steps",
          "seventh_layers", "seventh_steps", "shared_operands", "tenth_layers", "tenth_steps"]
BLOCK = 1 << 25             # random numbers that are drawn; larger arrays repeat them
TOLERANCES = {"f64": 5e-4, "f32": 5e-4, "f16": 5e-3, "bf16": 2e-2, "f8": 0.13}
TF32 = 4                    # times the tolerance
PROFILED_CALLS = 8
KERNELS = 6                 # how many of the slowest are listed
SLOWER = 1.02


def all_modules():
    """By name, of all tables."""
    return [importlib.import_module(f"module_{table}") for table in TABLES][0].MODULES


def random_array(of, random):
    dtype = np.dtype(of.dtype)
    count = math.prod(of.shape)
    drawn = min(count, BLOCK - 39)
    if of.low is None:
        values = (random.standard_normal(drawn, np.float32) * np.float32(of.scale)).astype(dtype)
    elif dtype.kind in "iu" or dtype.name in ("int4", "uint4"):
        values = random.integers(of.low, of.high, drawn)
        values = (np.sort(values) if of.sorted else values).astype(dtype)
    else:
        values = random.uniform(of.low, of.high, drawn).astype(dtype)
    if count > drawn:
        values = np.tile(values, -(-count // drawn))[:count]
    return values.reshape(of.shape)


def for_numpy(array):
    """As files of NumPy hold it: types that it lacks as wider ones."""
    array = np.asarray(array)
    if array.dtype.name in ("int4", "uint4"):
        return array.astype(np.int8)
    return array if array.dtype.kind in "biufc" else array.astype(np.float32)


def save(path, array):
    """Floats that NumPy lacks as raw bytes, which are of the parameter's type."""
    array = np.asarray(array)
    narrow = array.dtype.isbuiltin != 1 and array.dtype.name not in ("int4", "uint4")
    np.save(path, array.view(f"V{array.itemsize}") if narrow else for_numpy(array))


def class_of(dtype):
    """The name in TOLERANCES; None where values are exact."""
    if dtype.kind in "biu" or dtype.name in ("int4", "uint4"):
        return None
    name = {"complex64": "float32", "complex128": "float64"}.get(dtype.name, dtype.name)
    return "f8" if name.startswith("float8") else name.replace("bfloat", "bf").replace("float", "f")


def compare(found, expected, module, factor=1, narrow=False):
    """Largest difference and, where the values are too different, what to say of it; narrow: arguments of 16 bits."""
    dtype, expected = expected.dtype, for_numpy(expected)
    if found.shape != expected.shape:
        return math.inf, f"shape {found.shape} in place of {expected.shape}"
    if found.size == 0:
        return 0.0, None
    kind = class_of(dtype)
    if kind is None:
        wrong = found != expected
        share = float(wrong.mean())
        error = share and float(np.abs(found.astype(np.float64) - expected.astype(np.float64)).max())
        return error, f"{share:.1e} of elements, by {error:g} at most" if share > module.mismatch else None
    with np.errstate(all="ignore"):
        wide = np.float64 if kind == "f64" else np.float32
        wide = wide if expected.dtype.kind == "f" else expected.dtype
        found, expected = found.astype(wide, copy=False), expected.astype(wide, copy=False)
        finite = np.isfinite(found) & np.isfinite(expected)
        alike = (found == expected) | (np.isnan(found) & np.isnan(expected))
        difference = np.abs(np.where(finite, found - expected, 0))
        magnitudes = np.abs(np.where(np.isfinite(expected), expected, 0))
    largest = float(magnitudes.max()) or 1.0
    norm = math.sqrt(np.square(magnitudes, dtype=np.float64).sum()) or 1.0
    error = math.inf if (~finite & ~alike).any() else float(difference.max()) / largest
    allowed = TOLERANCES["f16" if kind == "f32" and narrow else kind] * module.tolerance * factor
    wrong = (difference > allowed * largest) | (~finite & ~alike)
    of_all = math.sqrt(np.square(np.where(wrong, 0, difference), dtype=np.float64).sum()) / norm
    share = float(wrong.mean())
    if share > module.mismatch:
        return error, f"{share:.1e} of elements, by {error:.1e} of the largest at most"
    return error, f"the norm of the difference is {of_all:.1e}" if of_all > allowed else None


def degenerate(values):
    """What makes a result say little in a comparison, or None."""
    wide = for_numpy(values)
    if wide.size and wide.dtype.kind in "fc" and not np.isfinite(wide).all():
        return f"{wide.size - int(np.isfinite(wide).sum())} of {wide.size} numbers not finite"
    return "all elements 0" if wide.size and not wide.any() else None


def entry_names(text):
    """Names of the parameters in order, and of the results as files."""
    entry = text[re.search(r"^ENTRY ", text, re.M).start():]
    entry = entry[:entry.index("\n}")]
    parameters = {int(number): name for name, number in
                  re.findall(r"^\s*(?:ROOT )?%?(\S+) = [^\n]*? parameter\((\d+)\)", entry, re.M)}
    root, type_ = re.search(r"^\s*ROOT %?(\S+) = (\(?)", entry, re.M).groups()
    return [parameters[i] for i in range(len(parameters))], root, bool(type_)


def profiled(folder, calls):
    """By the profiler's files, in microseconds a call: a stream of the GPU busy, or None; the slowest kernels."""
    import jax
    files = sorted(pathlib.Path(folder).rglob("*.xplane.pb"))
    spans, kernels = [], {}
    for file in files:
        for plane in jax.profiler.ProfileData.from_file(str(file)).planes:
            if plane.name.startswith("/device:GPU"):
                for event in (event for line in plane.lines if line.name.startswith("Stream") for event in line.events):
                    spans.append((event.start_ns, event.start_ns + event.duration_ns))
                    kernels[event.name] = kernels.get(event.name, 0) + event.duration_ns
    if not spans:
        return None, []
    busy, until = 0.0, -math.inf
    for start, end in sorted(spans):     # kernels of two streams at one time count once
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    slowest = sorted(((ns / calls / 1000, name) for name, ns in kernels.items()), reverse=True)[:KERNELS]
    return busy / calls / 1000, slowest


# Calls of JAX's lowering for GPUs that Strata takes for operators.
TAKEN_CALLS = {"TopK", "cusolver_potrf_ffi", "cusolver_getrf_ffi", "cusolver_geqrf_ffi", "cusolver_orgqr_ffi",
               "cu_lu_pivots_to_permutation"}


class OfXla:
    """A module as JAX compiles it: its text for Strata, its results and its time."""

    def __init__(self, name, module, options):
        import jax
        self.jax, self.name, self.module, self.platform = jax, name, module, options.lowered_for
        function, *self.shapes = module.build(options.small)
        types = {np.dtype(a.dtype).name for a in self.leaves()} - {"int8", "int32", "uint32"}
        self.tf32 = options.tf32 or types != {"float32"}
        jax.config.update("jax_default_matmul_precision", None if self.tf32 else "highest")
        self.jitted = jax.jit(function, keep_unused=True, donate_argnums=tuple(module.donated))
        self.note, self.slowest = None, []

    def leaves(self):
        return self.jax.tree.leaves(self.shapes)

    def text(self):
        shapes = self.jax.tree.map(lambda a: self.jax.ShapeDtypeStruct(a.shape, a.dtype), self.shapes)
        if self.platform:
            return self.as_text(self.jitted.trace(*shapes).lower(lowering_platforms=(self.platform,)))
        text = self.as_text(self.jitted.lower(*shapes))
        calls = set(re.findall(r'custom_call_target="([^"]*)"', text)) - TAKEN_CALLS
        if self.jax.default_backend() != "cpu" and calls:
            self.note = f"lowered for CPUs, since it calls {', '.join(sorted(calls))}"
            text = self.as_text(self.jitted.trace(*shapes).lower(lowering_platforms=("cpu",)))
        return text

    def as_text(self, lowered):
        text = lowered.as_text("hlo")
        assert "{...}" not in text, f"{self.name} has constants that the text leaves out"
        return text

    def compile(self):
        """Seconds that the lowered module takes, without the caches of earlier runs."""
        self.jax.config.update("jax_enable_compilation_cache", False)
        lowered = self.jitted.lower(*self.jax.tree.map(lambda a: self.jax.ShapeDtypeStruct(a.shape, a.dtype),
                                                       self.shapes))
        started = time.perf_counter()
        self.compiled = lowered.compile()
        return time.perf_counter() - started

    def arguments(self, arrays):
        return self.jax.tree.unflatten(self.jax.tree.structure(self.shapes), [self.jax.device_put(a) for a in arrays])

    def values(self, arrays):
        return [np.asarray(leaf) for leaf in self.jax.tree.leaves(self.compiled(*self.arguments(arrays)))]

    def calls(self, arguments, count):
        """Seconds for that many calls; what they donate is what the call before has made."""
        started = time.perf_counter()
        for _ in range(count):
            results = self.compiled(*arguments)
            for argument, output in self.module.donated.items():
                arguments[argument] = results[output]
        self.jax.block_until_ready(results)
        return time.perf_counter() - started

    def microseconds(self, arrays):
        """Of a call: a stream busy by the profiler, or None; and between the ends of calls."""
        arguments = list(self.arguments(arrays))
        self.calls(arguments, 2)
        few = self.calls(arguments, 3) / 3
        count = max(5, min(200, int(0.2 / few)))
        wall = min(self.calls(arguments, count) / count for _ in range(3)) * 1e6
        if self.jax.default_backend() == "cpu":
            return None, wall
        with tempfile.TemporaryDirectory() as folder:
            try:
                with self.jax.profiler.trace(folder):
                    self.calls(arguments, PROFILED_CALLS)
                busy, self.slowest = profiled(folder, PROFILED_CALLS)
                return busy, wall
            except Exception as error:
                self.note = "; ".join(filter(None, [self.note, f"no profile: {error}"]))
                return None, wall


def strata_compile_seconds(options, folder, text):
    """Of `strata emit` to cubins, its start included, without a search; None and why where not.

    The cache is empty before, and has the kernels for the run after.
    """
    path = folder / "compiled.hlo"
    path.write_text(text, encoding="utf-8")
    command = [options.strata, "emit", str(path), "--cache", str(folder / "cache")]
    command += ["--output", str(folder / "compiled")]
    started = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout, check=False)
    except subprocess.TimeoutExpired:
        return None, f"not compiled in {options.timeout:g} s"
    seconds = time.perf_counter() - started
    if done.returncode != 0 or "PTX in place of cubins" in done.stderr:
        return None, "no cold compile time: " + (done.stderr.strip().splitlines() or ["nothing said"])[0][:200]
    return seconds, None


def run_strata(options, folder, text, arrays):
    """What `strata run` prints, and its results."""
    names, root, is_tuple = entry_names(text)
    assert len(names) == len(arrays), f"{len(names)} parameters for {len(arrays)} arguments"
    path = folder / "module.hlo"
    path.write_text(text, encoding="utf-8")
    command = [options.strata, "run", str(path), "--cache", str(folder / "cache"), "--output", str(folder / "out")]
    if options.device == "gpu":
        command += ["--device", "gpu", "--profile"]
    command += ["--search-seconds", str(options.search_seconds)]
    for i, (name, array) in enumerate(zip(names, arrays)):
        save(folder / f"{i}.npy", array)
        command += ["--input", f"{name}={folder}/{i}.npy"]
    started = time.monotonic()
    result = {"status": "ok"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"status": f"timeout: over {options.timeout:g} s"}, []
    result["strata_seconds"] = round(time.monotonic() - started, 2)
    notes = [line for line in done.stderr.splitlines() if line.startswith(("note", "warning", "not super"))]
    result["notes"] = [line.replace(str(folder) + "/", "") for line in notes[:6]]
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line not in notes]
        reason = " | ".join(lines).replace(str(folder) + "/", "") or f"exit code {done.returncode}, nothing said"
        return {**result, "status": f"refused: {reason[:400]}"}, []
    lines = [(float(us), name, what)
             for us, name, what in re.findall(r"^ *([0-9.]+) µs  (\S+) *(.*)$", done.stdout, re.M)]
    whole = {name: us for us, name, _ in lines if name in ("all", "all,")}
    steps = [line for line in lines if line[1] not in whole]
    result["strata_us"] = whole.get("all,", whole.get("all"))
    result["steps"], result["slowest"] = len(steps), sorted(steps, reverse=True)[:KERNELS]
    if options.device == "gpu" and "all," not in whole:
        interpreted = sum(what == "interpreter" for _, _, what in steps)
        result["notes"].append(f"no CUDA graph: {interpreted} of {len(steps)} steps by the interpreter")
    if not is_tuple:
        return result, [folder / "out" / f"{root}.npy"]
    count = len(list((folder / "out").glob("*.npy")))
    return result, [folder / "out" / f"{root}.{i}.npy" for i in range(count)]


def failure_of_jax(error):
    return {"status": f"JAX failed: {str(error).splitlines()[0][:300]}"}


def both(xla, arrays, options, folder, turns):
    """Times and results of both sides, with the GPU to themselves; None for the results where one has none."""
    try:
        text = xla.text()
    except Exception as error:
        return failure_of_jax(error), None, None
    strata_compile, why_not = strata_compile_seconds(options, folder, text)
    with turns.alone():
        try:
            xla_compile = xla.compile()
            # Donated arrays are gone after a call, so that each use puts them on the device anew.
            expected = xla.values(arrays)
            busy, wall = xla.microseconds(arrays)
        except Exception as error:
            return failure_of_jax(error), None, None
        gc.collect()
        one, files = run_strata(options, folder, text, arrays)
    one = {"tf32": xla.tf32, "xla_us": busy or wall, "xla_busy_us": busy, "xla_wall_us": wall,
           "xla_slowest": xla.slowest, "strata_compile_s": strata_compile, "xla_compile_s": xla_compile, **one}
    one.setdefault("notes", []).extend(note for note in (why_not, xla.note) if note)
    return one, expected, files


def measure(name, module, options, turns):
    random = np.random.default_rng([ord(letter) for letter in name])
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        xla = OfXla(name, module, options)
        arrays = [random_array(of, random) for of in xla.leaves()]
        one, expected, files = both(xla, arrays, options, folder, turns)
        one = {"family": module.family, **one}
        if one["status"] != "ok":
            return one
        if len(files) != len(expected):
            return {**one, "status": f"differs: {len(files)} outputs in place of {len(expected)}"}
        one["errors"] = []
        factor = TF32 if options.tf32 and options.device == "gpu" else 1
        narrow = any(class_of(array.dtype) in ("f8", "f16", "bf16") for array in arrays)
        for i, (file, values) in enumerate(zip(files, expected)):
            error, why = compare(np.load(file), values, module, factor, narrow)
            if degenerate(values):
                one["notes"].append(f"output {i}: {degenerate(values)}")
            one["errors"].append(error)
            if why and one["status"] == "ok":
                one["status"] = f"differs: output {i} ({values.dtype.name}{list(values.shape)}): {why}"
        if one.get("strata_us") and one["xla_us"]:
            one["ratio"] = one["xla_us"] / one["strata_us"]
        return one


def attempt(name, options, turns):
    """A module's results, and that its process can take another."""
    import jax
    module = all_modules()[name]
    try:
        one = measure(name, module, options, turns)
    except Exception as error:
        one = {"family": module.family, "status": f"failed: {type(error).__name__}: {str(error)[:300]}"}
    jax.clear_caches()
    gc.collect()
    return one, True


def cell(value, form):
    return "-" if value is None else format(value, form)


def line_of(name, one):
    error = max(one["errors"]) if one.get("errors") else None
    wall = f"({one['xla_wall_us']:.1f})" if one.get("xla_wall_us") is not None else "-"
    notes = "; ".join(one.get("notes", []))
    strata, xla = (cell(one.get(of), ".1f") for of in ("strata_us", "xla_busy_us"))
    compiled = " ".join(f"{cell(one.get(of), '.2f'):>9}" for of in ("strata_compile_s", "xla_compile_s"))
    return (f"{name:30} {one['family']:13} {strata:>9} {xla:>9} {wall:>11} {cell(one.get('ratio'), '.3f'):>7} "
            f"{cell(error, '.1e'):>8} {compiled}  {one['status']}" + (f"  [{notes}]" if notes else ""))


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def summary(results):
    """Geometric means of XLA / Strata of the modules that are right, by family and of all; those that are slower."""
    ratios = {}
    for one in results.values():
        if one["status"] == "ok" and one.get("ratio"):
            ratios.setdefault(one["family"], []).append(one["ratio"])
    means = {family: {"modules": len(each), "ratio": geometric_mean(each)} for family, each in ratios.items()}
    if ratios:
        every = sum(ratios.values(), [])
        means["all"] = {"modules": len(every), "ratio": geometric_mean(every)}
    slower = sorted((name for name, one in results.items() if one.get("ratio") and one["ratio"] * SLOWER < 1),
                    key=lambda name: results[name]["ratio"])
    return means, slower


def versions(options):
    def output(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        except OSError:
            return ""
    device, driver = (output("nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader").split("\n")[0]
                      for what in ("name", "driver_version"))
    return {"device": device if options.device == "gpu" else "host", "date": datetime.date.today().isoformat(),
            "versions": {**{name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "numpy")},
                         "driver": driver, "strata": output(options.strata, "--version")},
            "command": " ".join([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]), "small": options.small,
            "search_seconds": options.search_seconds}


def write_hlo(chosen, options):
    options.hlo.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name, module in chosen.items():
        try:
            text = OfXla(name, module, options).text()
            (options.hlo / f"{name}.hlo").write_text(text, encoding="utf-8")
            print(f"{name:30} {module.family:13} {len(text):8} bytes", flush=True)
        except Exception as error:
            failed += 1
            print(f"{name:30} {module.family:13} FAILED: {error}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)}")
    return failed


def list_modules(chosen, options):
    import jax
    for name, module in chosen.items():
        shapes = jax.tree.leaves(module.build(options.small)[1:])
        size = sum(math.prod(a.shape) * max(1, np.dtype(a.dtype).itemsize) for a in shapes)
        print(f"{name:30} {module.family:13} {len(shapes):3} arguments {size / 1e6:9.2f} MB")
    print(f"{len(chosen)} modules, {len({module.family for module in chosen.values()})} families")


def arguments_of_command():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("--only", default="", help="modules whose name or family has one of these parts")
    parser.add_argument("--part", default="1/1", help="the I-th of N parts: every N-th module")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--hlo", type=pathlib.Path, help="only write the modules' texts to this folder")
    parser.add_argument("--results", type=pathlib.Path, help="written after each module")
    parser.add_argument("--merge", action="store_true", help="keep what the results' file has of other modules")
    parser.add_argument("--search-seconds", type=float, default=0)
    parser.add_argument("--timeout", type=float, default=60, help="seconds that strata may take for a module")
    parser.add_argument("--tf32", action="store_true", help="XLA may compute products of f32 in TF32")
    parser.add_argument("--lowered-for", metavar="PLATFORM", help="of the texts: cuda, cpu; default JAX's own")
    parser.add_argument("--device", choices=["gpu", "host"], default="gpu")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--small", action="store_true", help="small sizes, to compare values: with --device host")
    return parser.parse_args()


def main():
    options = arguments_of_command()
    if options.device == "host":
        os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")   # Strata needs memory of the same GPU
    modules = all_modules()
    part, parts = map(int, options.part.split("/"))
    chosen = {name: module for name, module in modules.items()
              if any(one in name or one == module.family for one in options.only.split(","))}
    chosen = dict(list(chosen.items())[part - 1::parts])
    if options.list:
        return list_modules(chosen, options)
    if options.hlo:
        return sys.exit(1 if write_hlo(chosen, options) else 0)
    import jax
    if options.device == "gpu" and jax.default_backend() != "gpu":
        sys.exit("JAX finds no GPU; --device host compares values on the CPU")
    written, results = versions(options), {}
    if options.merge and options.results and options.results.exists():
        results = json.loads(options.results.read_text(encoding="utf-8"))["modules"]
    print(f"{'module':30} {'family':13} {'strata µs':>9} {'XLA µs':>9} {'(wall)':>11} {'ratio':>7} "
          f"{'error':>8} {'compile s':>9} {'XLA s':>9}  status")
    if options.jobs > 1:
        answers = side_by_side.answers(chosen, options.jobs, attempt, options, shares=False)
    else:
        turns = side_by_side.Turns()
        answers = ((name, attempt(name, options, turns)[0]) for name in chosen)
    for name, one in answers:
        results[name] = one or {"family": chosen[name].family, "status": "failed: its process ended"}
        print(line_of(name, results[name]), flush=True)
        if options.results:
            means, slower = summary(results)
            options.results.write_text(json.dumps({**written, "means": means, "slower": slower, "modules": results},
                                                  indent=1) + "\n", encoding="utf-8")
    means, slower = summary(results)
    for family, mean in means.items():
        print(f"{family:13} {mean['modules']:3} modules, XLA / Strata {mean['ratio']:.3f}")
    print(f"{sum(one['status'] == 'ok' for one in results.values())} of {len(results)} modules agree")
    if slower:
        print(f"slower than {SLOWER} × XLA:")
    for name in slower:
        one = results[name]
        print(f"  {name:30} {one['strata_us']:9.1f} {one['xla_us']:9.1f} {one['ratio']:7.3f}"
              + ("" if one["status"] == "ok" else f"  {one['status']}"))


if __name__ == "__main__":
    main()
