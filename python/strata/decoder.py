"""Language models that decode tokens by one persistent kernel: what `strata decode` does, token by token."""

from __future__ import annotations

import json
import math
import operator
import os
import threading
import weakref
from collections import deque
from typing import Any, Iterable, Iterator, Mapping, Sequence

from strata import _core, arguments
from strata._core import Error
from strata.module import device_for

_DEVICES = ("auto", "gpu", "host", "host-kernel")
_MODES = ("auto", "megakernel", "graph")
_ARCHITECTURE = "sm_90a"
_FILES = ("model.safetensors.index.json", "model.safetensors")
#: Element types as safetensors names them.
_SAFE_NAMES = {"bfloat16": "BF16", "float32": "F32", "float16": "F16", "float64": "F64"}


class Decoder:
    """A dense model of the Qwen3 or Llama-3 family that decodes a batch of sequences.

    model: a Qwen3ForCausalLM or LlamaForCausalLM of transformers, in bfloat16; or its configuration: an object of
        transformers, a dict as of config.json, the file, its folder, or a built-in name such as "qwen3-0.6b".
    weights: a .safetensors file or a folder with such; a mapping of the model's names to tensors of torch or NumPy, in
        bfloat16; "random". None: those of the model, or of the configuration's folder.
    batch: sequences that advance together.
    capacity: positions of each sequence, of prompt and answer together.
    device: "gpu", the machine's first; "host", the interpreter, in float32, for small models; "host-kernel", the GPU's
        code, compiled for the host by c++, for tests; "auto", the GPU where there is one that the code is for, else
        the host.
    mode: of a GPU: "megakernel", one persistent kernel; "graph", a kernel for each operator, in a CUDA graph; "auto",
        the faster, measured at the start.
    seed: of random weights.
    cache: the folder of the cache of compiled code; None: ~/.cache/strata; "": none.

    Raises Error where model, weights or sizes are not those that are supported, with what is."""

    def __init__(
        self,
        model: Any,
        *,
        weights: Any = None,
        batch: int = 1,
        capacity: int = 1024,
        device: str = "auto",
        mode: str = "auto",
        seed: int = 0,
        cache: str | None = None,
    ):
        arguments.need_emitters("Decoder")
        if device not in _DEVICES:
            raise Error(f"device {device!r} is none of {', '.join(map(repr, _DEVICES))}\n  write one of them")
        if mode not in _MODES:
            raise Error(f"mode {mode!r} is none of {', '.join(map(repr, _MODES))}\n  write one of them")
        batch = _whole("batch", batch, 1, 2**31)
        capacity = _whole("capacity", capacity, 1, 2**31)
        random_seed = _whole("seed", seed, 0, 2**64)
        kind, config, own = _configuration(model)
        given = own if weights is None else weights
        if kind == "name" and (os.sep in config or "/" in config) and not os.path.exists(config):
            raise Error(f"there is no '{config}'\n  give a model's folder or its config.json, or a built-in name")
        path, tensors, kept = "", [], []
        if given is None:
            raise Error(
                "there are no weights: a configuration has none of its own\n"
                '  give weights=, a folder, a file or a mapping of names to tensors; or "random"'
            )
        if isinstance(given, Mapping):
            tensors, kept = _tensors(given)
        elif isinstance(given, (str, os.PathLike)):
            path = "" if given == "random" else os.fspath(given)
        else:
            raise Error(f"weights is {type(given).__name__}\n  give a path, a mapping of names to tensors, or 'random'")
        self._device, gpu = _device(device)
        self._core = _core.Decoder.open(
            kind, config, [], path, tensors, random_seed if given == "random" else None, self._device, gpu, mode, batch,
            capacity, arguments.cache_folder(cache),
        )  # fmt: skip
        self._kept = kept if self._device == "host" else []  # the interpreter reads embeddings where they lie
        self._batch = batch
        self._eos = _end_tokens(model, self._core.eos)
        self._running: weakref.ref[Generation] | None = None  # one that is dropped has ended
        self._starting = threading.Lock()  # of two threads that start a generation at once, one gets the cache

    @property
    def device(self) -> str:
        """ "gpu", "host" or "host-kernel"."""
        return self._device

    @property
    def batch(self) -> int:
        return self._batch

    @property
    def capacity(self) -> int:
        return self._core.capacity

    @property
    def notes(self) -> list[str]:
        """How steps run, and what was done otherwise than planned, one line each."""
        return [self._core.description, *self._core.notes]

    @property
    def start_seconds(self) -> dict[str, float]:
        """How long the parts of the start took: "step", planned, and compiled or read from the cache; "memory",
        allocated, uploaded and packed; "choice" of loads and form, by timing them; "prompts", what the step of long
        prompts took beyond that. "weights" are given, so 0. All are 0 of the interpreter, which has no such parts."""
        return self._core.start_seconds

    def generate(
        self,
        prompt_ids: Any,
        max_new_tokens: int | None = None,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        eos: int | Iterable[int] | None = None,
    ) -> Generation:
        """Decodes new sequences, and gives their tokens one by one, as soon as they are made.

        prompt_ids: the ids of a prompt; for a batch a sequence of prompts, which may differ in length. Arrays and
            tensors are taken, too.
        max_new_tokens: of each sequence; None: as many as the capacity has place for.
        temperature: 0: the likeliest token. Else tokens are drawn, from the top_k likeliest (0: from all), and of these
            from the likeliest that together have the probability top_p.
        seed: of the tokens drawn. The same seed gives the same tokens.
        eos: ids that end a sequence, which has them as its last; None: the model's; (): none.

        Iterate over what is returned: over ids, or over (sequence, id) where the batch is above 1. Ctrl-C and leaving
        the loop end the decoding. Raises Error for what does not fit the model or the cache."""
        prompts = _prompts(prompt_ids, self._batch)
        if max_new_tokens is None:
            max_new_tokens = max(self.capacity - max(map(len, prompts), default=0) + 1, 1)
        tokens = _whole("max_new_tokens", max_new_tokens, 1, 2**31)
        numbers = [_number("temperature", temperature), _whole("top_k", top_k, 0, 2**63), _number("top_p", top_p)]
        stop = self._eos if eos is None else _ids("eos", [eos] if hasattr(eos, "__index__") else eos)
        seed = _whole("seed", seed, 0, 2**64)
        with self._starting:
            running = self._running() if self._running is not None else None
            if running is not None and not running.ended:
                raise Error(
                    "the decoder has not ended the generation before: there is one cache\n"
                    "  read it to its end, call its close(), or make another Decoder"
                )
            job = _core.DecodeJob(self._core, prompts, tokens, *numbers, seed, stop)
            generation = Generation(job, self._batch, self._kept)
            self._running = weakref.ref(generation)
            return generation

    def __repr__(self) -> str:
        return f"<strata.Decoder on {self._device}: batch {self._batch}, {self.capacity} positions>"


class Generation(Iterator):
    """Tokens as they are made: an iterator of ids, or of (sequence, id) where the batch is above 1."""

    def __init__(self, job: _core.DecodeJob, batch: int, kept: Any):
        self._job: _core.DecodeJob | None = job
        self._kept = kept  # weights that the job reads, which ends before they go: attributes are dropped in order
        self._taken: deque[tuple[int, int]] = deque()
        self._batch = batch
        self.tokens: list[list[int]] = [[] for _ in range(batch)]  #: what was given so far, by sequence

    def __next__(self) -> Any:
        try:
            while not self._taken:
                if self._job is None:
                    raise StopIteration
                taken, ended = self._job.take(0.1)  # Ctrl-C is seen ten times a second
                self._taken.extend(taken)
                if ended:
                    self._job = None
        except BaseException:
            self.close()
            raise
        sequence, token = self._taken.popleft()
        self.tokens[sequence].append(token)
        return (sequence, token) if self._batch > 1 else token

    @property
    def ended(self) -> bool:
        """Whether nothing is being decoded for it."""
        return self._job is None

    def close(self) -> None:
        """Ends it, and waits for the step that runs."""
        self._taken.clear()
        self._job = None

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _configuration(model: Any) -> tuple[str, str, Any]:
    """("text" or "name", the configuration, the weights that come with it)."""
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        found = any(os.path.exists(os.path.join(folder, name)) for name in _FILES) if os.path.exists(path) else False
        return "name", path, (folder or ".") if found else None
    if isinstance(model, Mapping):
        return "text", json.dumps(dict(model)), None
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    weights = model.state_dict() if hasattr(model, "state_dict") else None
    config = getattr(model, "config", model)
    if not hasattr(config, "to_dict"):
        raise Error(
            f"{type(model).__name__} is no model and no configuration\n"
            "  give a Qwen3ForCausalLM or LlamaForCausalLM, its configuration, or the name of either"
        )
    known = config.to_dict()
    if weights:
        # Of a model the weights say the type: Module.to does not change the configuration.
        known.update(dtype="bfloat16", torch_dtype=None)
        known["architectures"] = [type(model).__name__]
    return "text", json.dumps(known), weights


def _end_tokens(model: Any, own: list[int]) -> list[int]:
    """Those with which transformers' generate ends, where there is a model; else the configuration's."""
    settings = getattr(getattr(model, "_orig_mod", model), "generation_config", None)
    found = getattr(settings, "eos_token_id", None)
    if found is None:
        return own
    return _ids("the model's eos_token_id", [found] if hasattr(found, "__index__") else found)


def _tensors(given: Mapping) -> tuple[list[tuple[str, str, list[int], int]], list[Any]]:
    """What the extension takes, and what must live as long as it reads that."""
    found, kept = [], []
    for name, tensor in given.items():
        arguments.text("a weight's name", name)
        if hasattr(tensor, "data_ptr"):
            tensor = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
            place = tensor.data_ptr()
        elif hasattr(tensor, "__array_interface__") or type(tensor).__module__ == "numpy":
            import numpy

            tensor = numpy.ascontiguousarray(tensor)
            place = tensor.ctypes.data
        else:
            raise Error(
                f"the weight '{name}' is {type(tensor).__name__}, no tensor of torch and no array of NumPy\n"
                "  convert it to one of the two"
            )
        dtype = str(tensor.dtype).removeprefix("torch.")
        found.append((name, _SAFE_NAMES.get(dtype, dtype), list(tensor.shape), place))
        kept.append(tensor)
    return found, kept


def _device(device: str) -> tuple[str, _core.Device | None]:
    if device not in ("auto", "gpu"):
        return device, None
    found = device_for(device)
    if found is not None and found.architecture == _ARCHITECTURE:
        return "gpu", found
    if device == "gpu":
        raise Error(
            f"{found.name} is {found.architecture}, and steps are compiled for {_ARCHITECTURE}\n"
            '  take a Hopper GPU, or device="host" for a small model'
        )
    return "host", None


def _prompts(given: Any, batch: int) -> list[list[int]]:
    if hasattr(given, "tolist"):
        given = given.tolist()
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise Error(f"prompt_ids is {type(given).__name__}\n  give the ids of the model's tokenizer, as whole numbers")
    rows = [one.tolist() if hasattr(one, "tolist") else one for one in given]
    nested = any(isinstance(one, Sequence) for one in rows)
    prompts = [_ids("a prompt", one) for one in rows] if nested else [_ids("the prompt", rows)]
    if len(prompts) != batch:
        raise Error(f"{len(prompts)} prompts for a batch of {batch}\n  make a Decoder with batch={len(prompts)}")
    return prompts


def _ids(what: str, given: Any) -> list[int]:
    try:
        found = [operator.index(one) for one in given]
    except TypeError:
        raise Error(f"{what} {given!r} is no sequence of token ids\n  give a list of whole numbers") from None
    wrong = [one for one in found if not -(2**31) <= one < 2**31]
    if wrong:
        raise Error(f"{what} has {wrong[0]}, which is no token id\n  ids are whole numbers from 0 on")
    return found


def _whole(what: str, value: Any, least: int, end: int) -> int:
    try:
        found = operator.index(value)
    except TypeError:
        raise Error(f"{what} is {type(value).__name__}, not a whole number\n  give an int") from None
    if not least <= found < end:
        raise Error(f"{what} is {found}\n  give a number from {least} to {end - 1}")
    return found


def _number(what: str, value: Any) -> float:
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise Error(f"{what} is {type(value).__name__}, not a number\n  give an int or a float")
    found = float(value)
    if not math.isfinite(found):
        raise Error(f"{what} is {found}\n  give a finite number")
    return found
