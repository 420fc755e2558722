#!/usr/bin/env python3
"""Searches a program's space in shards on Ray workers, joins them and optimises from the whole.

    python examples/ray_shards.py programs/gqa.strata --shards 8 --output out/gqa

Workers need the strata binary at the same path. On one machine Ray starts local workers; `--address` joins a cluster,
where the folder of --output must be shared.
"""
import argparse
import pathlib
import subprocess
import sys

try:
    import ray
except ImportError:
    sys.exit("ray_shards: Ray is not installed; pip install -r requirements-ray.txt")


@ray.remote(num_cpus=1)
def search_shard(strata, program, target, index, count, checkpoint, options):
    """One slice of the space, on one thread of a worker; what is finished is in the checkpoint even if it is killed."""
    command = [strata, "optimize", program, "--target", target, "--threads", "1", "--shard", f"{index}/{count}",
               "--checkpoint", checkpoint, "-o", f"{checkpoint}.out", *options]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return checkpoint


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--strata", default="build/release/bin/strata", help="the binary, on every worker")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--output", default="out/ray")
    parser.add_argument("--address", help="of a Ray cluster; default: local workers")
    parser.add_argument("options", nargs="*", help="more options of strata optimize, after --")
    arguments = parser.parse_args()

    folder = pathlib.Path(arguments.output).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    strata = str(pathlib.Path(arguments.strata).resolve())
    program = str(pathlib.Path(arguments.program).resolve())
    ray.init(address=arguments.address, num_cpus=None if arguments.address else arguments.shards,
             include_dashboard=False, log_to_driver=False)
    shards = [
        search_shard.remote(strata, program, arguments.target, i, arguments.shards, str(folder / f"shard-{i}.json"),
                            arguments.options) for i in range(arguments.shards)
    ]
    try:
        checkpoints = ray.get(shards)
    except ray.exceptions.RayTaskError as error:
        failed = error.cause
        sys.exit(f"ray_shards: a shard failed: {getattr(failed, 'stderr', '') or failed}")
    merged = str(folder / "merged.json")
    subprocess.run([strata, "merge", merged, *checkpoints], check=True)
    subprocess.run([strata, "optimize", program, "--target", arguments.target, "--checkpoint", merged, "--no-cache",
                    "-o", str(folder), *arguments.options], check=True)


if __name__ == "__main__":
    main()
