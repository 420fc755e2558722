#!/usr/bin/env python3
"""Checks `strata decode` on a GPU: check_decode.py STRATA [--part NAME ...] [--json FILE]

  reference   greedy tokens of a model with random weights, each judged by a float32 reference's logits after all tokens
              before it: the reference's best token, or, where its best logits are nearer than twice the error of
              bfloat16, one of those. The error is measured: the reference with all results rounded to bfloat16
  twice       two runs have the same tokens, as have all forms that --mode names
  batches     sequences of a batch and each alone, judged as above; they may differ only from a tie on
  steps       10,000 steps in one launch
  starts      100 starts of a tiny model have the same tokens
  sanitizer   compute-sanitizer's tools on a tiny model of two layers

Exit status: 0 all passed, 1 something failed, 2 nothing failed and something was not run. `--device host` and
`host-kernel` run the first five parts without a GPU, with --model tiny.
"""
import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import decode_reference as reference  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("reference", "twice", "batches", "steps", "starts", "sanitizer")
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
# racecheck takes it for a race where one lane arrives at a barrier for its warp, after the warp has met, even in a
# program of 60 lines. So for it each lane arrives itself.
ENVIRONMENTS = {"racecheck": {"STRATA_EACH_LANE_RELEASES": "1"}}
TINY = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 128, "vocab_size": 256,
        "max_position_embeddings": 16384, "hidden_act": "silu", "torch_dtype": "bfloat16", "rms_norm_eps": 1e-6,
        "rope_theta": 1000000}


class Failed(Exception):
    pass


class NotRun(Exception):
    pass


@dataclasses.dataclass
class Clock:
    """Of all parts together."""
    begin: float
    limit: float

    def left(self):
        return self.begin + self.limit - time.monotonic()


@dataclasses.dataclass
class Run:
    tokens: list
    report: dict  # what the program says of itself, where it says it
    seconds: float


def ended(command, seconds, clock, environment=None):
    """The finished process. Failed where it takes longer than `seconds`, NotRun where there is no time for it."""
    allowed = min(seconds, clock.left())
    if allowed <= 0:
        raise NotRun("--limit-seconds")
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=allowed, check=False,
                              env={**os.environ, **(environment or {})})
    except subprocess.TimeoutExpired as expired:
        if allowed < seconds:
            raise NotRun(f"--limit-seconds, after {allowed:.0f} s of a run that may take {seconds:.0f} s") from expired
        raise Failed(f"no end after {seconds:.0f} s: {' '.join(map(str, command))[:300]}") from expired
    except OSError as error:
        raise NotRun(f"{command[0]}: {error.strerror}") from error


class Strata:
    def __init__(self, options, cache, clock):
        self.options, self.cache, self.clock = options, cache, clock
        self.mode, self.device = None, options.device

    def command(self, config, prompts, tokens, *more):
        device = self.options.device
        found = [self.options.strata, "decode", "--config", config, "--tokens", tokens, "--ignore-eos", "--device",
                 device, "--json", *more]
        found += ["--cache", self.cache] if device == "gpu" else []
        found += ["--mode", self.mode] if device != "host" else []
        for prompt in prompts:
            found += ["--prompt-ids", ",".join(map(str, prompt))]
        return list(map(str, found))

    def result(self, done, count, seconds):
        if done.returncode != 0:
            raise Failed(f"exit status {done.returncode}: {' '.join(done.stderr.split())[-400:]}")
        report = json.loads(done.stdout)
        tokens = report.pop("tokens")
        self.device = report.get("device", self.device)
        if len(tokens) != count:
            raise Failed(f"{len(tokens)} sequences instead of {count}")
        return Run(tokens, report, seconds)

    def decode(self, config, prompts, tokens, *more, seconds=None, environment=None):
        begin = time.monotonic()
        done = ended(self.command(config, prompts, tokens, *more), seconds or self.options.run_seconds, self.clock,
                     environment)
        run = self.result(done, len(prompts), time.monotonic() - begin)
        for sequence in run.tokens:
            if len(sequence) != tokens:
                raise Failed(f"{len(sequence)} tokens instead of {tokens}")
        return run


class Checks:
    def __init__(self, options, folder, clock):
        self.options, self.folder, self.clock = options, folder, clock
        self.strata = Strata(options, folder / "cache", clock)
        self.alone = {}  # mode -> number of a prompt -> its run
        self.verdicts = {}  # tokens of a sequence -> its verdict
        self.model, self.error = None, 0.0

    def prepare(self):
        """The model that the first three parts decode."""
        if self.model:
            return
        name = self.options.model
        built_in = ROOT / "examples" / "models" / f"{name}.json"
        path = built_in if built_in.exists() else pathlib.Path(name)
        config = TINY if name == "tiny" else json.loads(path.read_text(encoding="utf-8"))
        weights = reference.draw_weights(config, self.options.seed)
        folder = self.folder / "model"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        reference.write_safetensors(folder / "model.safetensors", weights)
        arrays = reference.arrays_of(self.options.reference)
        self.model = reference.Reference(config, weights, arrays)
        self.path = folder
        longest = self.options.longest_prompt
        lengths = [4, longest, 1, max(1, longest // 4), 17, max(1, longest // 2), 2, 33]
        random = np.random.default_rng(self.options.seed)
        self.prompts = [random.integers(0, config["vocab_size"], min(lengths[n % len(lengths)], longest)).tolist()
                        for n in range(self.options.batch)]

    def run(self, prompts):
        return self.strata.decode(self.path, prompts, self.options.tokens, "--weights", self.path)

    def run_alone(self, number):
        runs = self.alone.setdefault(self.strata.mode, {})
        if number not in runs:
            runs[number] = self.run([self.prompts[number]])
        return runs[number]

    def judge(self, prompt, tokens):
        key = tuple(prompt), tuple(tokens)
        if key not in self.verdicts:
            bad = [t for t in tokens if not 0 <= t < self.model.config["vocab_size"]]
            if bad:
                raise Failed(f"token {bad[0]} is not of the vocabulary")
            fed, first = [*prompt, *tokens[:-1]], len(prompt) - 1
            exact = self.model.logits(fed, first)
            self.error = max(self.error, reference.bf16_error(exact, self.model.logits(fed, first, rounded=True)))
            self.verdicts[key] = reference.judge(exact, tokens, self.error)
        return self.verdicts[key]

    def judged(self, sequences):
        """Figures of (name, prompt, tokens)."""
        verdicts = {name: self.judge(prompt, tokens) for name, prompt, tokens in sequences}
        wrong = [f"{name}: step {v.mismatch}, logit {v.mismatch_gap:.4f} below the best" for name, v in verdicts.items()
                 if not v.right()]
        figures = {"bf16_error": self.error, "error_of": "the reference, rounded to bfloat16 (no logits of Strata)",
                   "sequences": {name: dataclasses.asdict(v) for name, v in verdicts.items()}}
        if wrong:
            raise Failed(f"{'; '.join(wrong)}; error {self.error:.4f}", figures)
        steps, clear = sum(v.steps for v in verdicts.values()), sum(v.clear for v in verdicts.values())
        text = f"{steps} steps, {clear} clear; error {self.error:.4f}"
        tie = next((v for v in verdicts.values() if v.first_tie is not None), None)
        if tie:
            text += f", first tie at step {tie.first_tie}: gap {tie.first_tie_gap:.4f}"
        if clear * 5 < steps:
            raise NotRun(f"too few clear steps say nothing: {text}", figures)
        return text, figures

    def reference(self):
        self.prepare()
        numbers = range(min(2, len(self.prompts)))
        return self.judged([(f"prompt of {len(self.prompts[n])}", self.prompts[n], self.run_alone(n).tokens[0])
                            for n in numbers])

    def twice(self):
        self.prepare()
        first, second = self.run_alone(0), self.run([self.prompts[0]])
        others = {mode: runs[0] for mode, runs in self.alone.items() if 0 in runs} | {"second run": second}
        for name, run in others.items():
            at = reference.first_difference(first.tokens[0], run.tokens[0])
            if at is not None:
                raise Failed(f"{name}: another token at step {at}")
        return f"{len(first.tokens[0])} tokens equal: {', '.join(others)}", {"tokens": len(first.tokens[0])}

    def batches(self):
        self.prepare()
        together = self.run(self.prompts).tokens
        alone = [self.run_alone(n).tokens[0] for n in range(len(self.prompts))]
        text, figures = self.judged([(f"{where} {n}", prompt, found[n]) for n, prompt in enumerate(self.prompts)
                                     for where, found in (("in the batch", together), ("alone", alone))])
        # Both are right, so what differs first is a tie.
        differ = [reference.first_difference(a, t) for a, t in zip(alone, together)]
        figures["first_differences"] = differ
        equal = sum(d is None for d in differ)
        return f"{equal} of {len(differ)} sequences equal, others up to a tie; {text}", figures

    def steps(self):
        count = self.options.steps
        config = self.config_of(self.options.model)
        run = self.strata.decode(config, [[3, 17, 200, 5]], count, "--capacity", (count + 511) // 256 * 256,
                                 seconds=self.options.steps_seconds)
        return f"{count} steps, {run.seconds:.1f} s with the start", {"steps": count, "seconds_of_run": run.seconds,
                                                                     "distinct_tokens": len(set(run.tokens[0]))}

    def config_of(self, name):
        if name != "tiny":
            return name
        path = self.folder / "tiny.json"
        path.write_text(json.dumps(TINY), encoding="utf-8")
        return path

    def starts(self):
        config, tokens, seconds = self.config_of("tiny"), None, []
        for n in range(self.options.starts):
            try:
                run = self.strata.decode(config, [[3, 17, 200, 5]], 16)
            except (Failed, NotRun) as problem:
                raise type(problem)(f"start {n} of {self.options.starts}: {problem.args[0]}") from problem
            tokens = tokens or run.tokens
            seconds.append(run.seconds)
            if run.tokens != tokens:
                raise Failed(f"start {n}: other tokens than the first: {run.tokens[0]}, {tokens[0]}")
        figures = {"starts": len(seconds), "median_seconds": sorted(seconds)[len(seconds) // 2],
                   "longest_seconds": max(seconds)}
        return f"{len(seconds)} starts, the same tokens, median {figures['median_seconds']:.2f} s", figures

    def sanitizer(self):
        if self.options.device != "gpu":
            raise NotRun("compute-sanitizer looks at kernels on a GPU")
        program = shutil.which(self.options.sanitizer) or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
        if not program:
            raise NotRun(f"{self.options.sanitizer} is not installed")
        config, prompts, count = self.config_of("tiny"), [[3, 17]], 3
        expected = self.strata.decode(config, prompts, count).tokens  # and the compiled code is in the cache
        figures, failed, missing = {}, [], []
        for tool in TOOLS:
            environment = ENVIRONMENTS.get(tool, {})
            if environment and self.strata.decode(config, prompts, count, environment=environment).tokens != expected:
                raise Failed(f"other tokens with {environment}")
            log = self.folder / f"{tool}.log"
            command = [program, "--tool", tool, "--log-file", log, "--print-limit", 20,
                       *self.strata.command(config, prompts, count)]
            begin = time.monotonic()
            log.unlink(missing_ok=True)
            try:
                try:
                    done = ended(list(map(str, command)), self.options.sanitizer_seconds, self.clock, environment)
                except Failed as slow:  # threads that wait for others take a tool thousands of times longer
                    raise NotRun(f"no end after {self.options.sanitizer_seconds:.0f} s") from slow
                text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
                figures[tool] = self.of_tool(tool, done, text, expected)
            except Failed as problem:
                failed.append(f"{tool}: {problem.args[0]}")
                figures[tool] = {"status": "failed", "reason": problem.args[0], **(problem.args[1:] or ({},))[0]}
            except NotRun as problem:
                missing.append(f"{tool}: {problem.args[0]}")
                figures[tool] = {"status": "not run", "reason": problem.args[0]}
            figures[tool]["seconds"] = round(time.monotonic() - begin, 1)
        if failed:
            raise Failed("; ".join(failed + missing), {"tools": figures})
        if missing:
            raise NotRun("; ".join(missing), {"tools": figures})
        return ", ".join(f"{tool} 0 errors" for tool in figures), {"tools": figures}

    def of_tool(self, tool, done, log, expected):
        if "Device not supported" in log + done.stderr + done.stdout:
            raise NotRun("it does not support this device")
        found = sanitizer_errors(log)
        if found is None:
            raise NotRun(f"no summary; exit status {done.returncode}: {' '.join((log + done.stderr).split())[-300:]}")
        figures = {"errors": found}
        if found > 0:
            figures["first"] = [line for line in log.splitlines() if line.startswith("=========")][:20]
            raise Failed(f"{found} errors", figures)
        if self.strata.result(done, len(expected), 0).tokens != expected:
            raise Failed("0 errors, but other tokens than without it", figures)
        return {"status": "passed"} | figures


def sanitizer_errors(log):
    """What a log of compute-sanitizer sums up to, with racecheck's warnings; None where it has no summary."""
    if hazards := re.search(r"RACECHECK SUMMARY: (\d+) hazards?", log):
        return int(hazards[1])
    errors = re.search(r"ERROR SUMMARY: (\d+) errors?", log)
    return int(errors[1]) if errors else None


def reference_device(wanted):
    if wanted != "auto":
        return wanted
    with contextlib.suppress(ImportError):
        import torch
        if torch.cuda.is_available():
            return "cuda"
    return "numpy"


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--mode", nargs="+", choices=("megakernel", "graph", "auto"), default=["megakernel"])
    parser.add_argument("--device", choices=("gpu", "host", "host-kernel"), default="gpu")
    parser.add_argument("--model", default="qwen3-0.6b", help="a name of examples/models, a config.json, or tiny")
    parser.add_argument("--seed", type=int, default=1, help="of weights and prompts")
    parser.add_argument("--tokens", type=int, default=64, help="of each sequence")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--longest-prompt", type=int, default=150)
    parser.add_argument("--reference", default="auto", help="numpy, a device of PyTorch, or auto: cuda, else numpy")
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--starts", type=int, default=100)
    parser.add_argument("--sanitizer", default="compute-sanitizer", help="the program")
    parser.add_argument("--run-seconds", type=float, default=180, help="that a run may take")
    parser.add_argument("--steps-seconds", type=float, default=180, help="that the run of part steps may take")
    parser.add_argument("--sanitizer-seconds", type=float, default=180, help="that a tool of part sanitizer may take")
    parser.add_argument("--limit-seconds", type=float, default=1e9, help="of all; what is left over is not run")
    parser.add_argument("--json", type=pathlib.Path, help="where results go, after each part")
    return parser.parse_args(arguments)


def version_of(program):
    try:
        return subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    except OSError as error:
        sys.exit(f"{program}: {error.strerror}")


def main():
    options = parse(sys.argv[1:])
    options.reference = reference_device(options.reference)
    results = {"device": options.device, "date": datetime.date.today().isoformat(),
               "command": " ".join(["check_decode.py", "STRATA", *sys.argv[2:]]), "strata": version_of(options.strata),
               "model": options.model, "reference": f"float32 on {options.reference}", "rows": []}
    clock = Clock(time.monotonic(), options.limit_seconds)
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(options, pathlib.Path(folder), clock)
        for mode in options.mode:
            checks.strata.mode = mode
            for part in options.part:
                begin, figures = time.monotonic(), {}
                try:
                    if clock.left() <= 0:
                        raise NotRun("--limit-seconds")
                    text, figures = getattr(checks, part)()
                    status = "passed"
                except (Failed, NotRun) as problem:
                    status = "failed" if isinstance(problem, Failed) else "not run"
                    text, *more = problem.args
                    figures = more[0] if more else {}
                seconds = round(time.monotonic() - begin, 1)
                results["rows"].append({"part": part, "mode": mode, "status": status, "text": text, "seconds": seconds,
                                        **figures})
                shown = {"passed": "PASS", "failed": "FAIL", "not run": "not run"}[status]
                print(f"{shown}: {part} ({mode}), {seconds} s: {text}", flush=True)
                results["device"] = checks.strata.device
                if options.json:
                    options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    statuses = {row["status"] for row in results["rows"]}
    return 1 if "failed" in statuses else 2 if "not run" in statuses else 0


if __name__ == "__main__":
    sys.exit(main())
