#!/usr/bin/env python3
"""Random convolutions by cuDNN as launch manifests describe them, compared with float64: check_convolutions.py [COUNT].

All types, odd sizes, strides, paddings, channels first and last, relu, and the first algorithms of the library. Exit
status 1 where anything is wrong or the library does not take a convolution that src/superopt/codegen/libraries.cpp
would give to it.
"""
import math
import pathlib
import random
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cudnn_convolution import Convolution  # noqa: E402
from run import TOLERANCE, TYPES  # noqa: E402

MOST_BYTES = 256 << 20


def check(seed):
    draw = random.Random(seed)
    dtype = draw.choice(["f16", "bf16", "f32"])
    convolution = {"type": dtype, "images": draw.choice([1, 2, 5, 8]), "channels": draw.choice([1, 3, 8, 17, 32, 64]),
                   "filters": draw.choice([1, 5, 8, 16, 33, 64]), "height": draw.choice([3, 7, 14, 31, 56]),
                   "width": draw.choice([3, 8, 13, 28, 57]), "filter_height": draw.choice([1, 2, 3]),
                   "filter_width": draw.choice([1, 2, 3]), "stride": draw.choice([1, 1, 2, 3]), "algorithm": 0}
    convolution["channels_last"] = draw.random() < 0.5
    # Only with channels last, as the generator does.
    convolution["relu"] = convolution["channels_last"] and draw.random() < 0.5
    convolution["padding"] = draw.randrange(min(convolution["filter_height"], convolution["filter_width"]))
    shape = lambda *names: [convolution[name] for name in names]
    make = lambda sizes: torch.randn(sizes, device="cuda", dtype=torch.float64).to(TYPES[dtype])
    x = make(shape("images", "channels", "height", "width"))
    w = make(shape("filters", "channels", "filter_height", "filter_width"))
    expected = torch.nn.functional.conv2d(x.double().cpu(), w.double().cpu(), stride=convolution["stride"],
                                          padding=convolution["padding"]).cuda()
    if convolution["relu"]:
        expected = expected.relu()
    if convolution["channels_last"]:
        x, w = (t.contiguous(memory_format=torch.channels_last) for t in (x, w))
    worst, algorithms = 0.0, 0
    for algorithm in range(6):
        convolution["algorithm"] = algorithm
        try:
            one = Convolution({"name": "convolution", "workspace_bytes": MOST_BYTES, "convolution": convolution})
        except RuntimeError as error:
            if algorithm == 0:
                print(error, flush=True)
                return convolution, math.inf, 0
            break
        algorithms += 1
        workspace = torch.empty(max(1, one.workspace_bytes), dtype=torch.uint8, device="cuda")
        y = torch.full(expected.shape, float("nan"), device="cuda", dtype=TYPES[dtype])
        if convolution["channels_last"]:
            y = torch.full_like(y, float("nan"), memory_format=torch.channels_last)
        one.run([t.data_ptr() for t in (x, w, y)], workspace.data_ptr(), torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        error = ((y.double() - expected).norm() / expected.norm().clamp_min(1e-30)).item()
        worst = error if not error <= worst else worst
    return convolution, worst, algorithms


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    torch.zeros(1, device="cuda")
    wrong, refused, largest, algorithms = 0, 0, {}, 0
    for seed in range(count):
        convolution, error, tried = check(seed)
        algorithms += tried
        if error <= TOLERANCE[convolution["type"]]:
            largest[convolution["type"]] = max(largest.get(convolution["type"], 0), error)
            continue
        refused, wrong = refused + (error == math.inf), wrong + (error != math.inf)
        print("refused" if error == math.inf else f"WRONG {error:.2e}", convolution, flush=True)
    print(f"{count} convolutions, {algorithms} algorithms: {wrong} wrong, {refused} refused; largest errors "
          + ", ".join(f"{t} {e:.1e}" for t, e in sorted(largest.items())))
    sys.exit(1 if wrong or refused else 0)


if __name__ == "__main__":
    main()
