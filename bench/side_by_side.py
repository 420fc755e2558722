"""Processes that compile side by side and take times one at a time on each GPU."""

import collections
import contextlib
import fcntl
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time


class OutOfTime(BaseException):
    """A time limit; not an Exception, so that what a compiler catches does not end with it."""


class Turns:
    """A process's share of a GPU: a lock of a file, held shared by a task but for its times, which hold it alone.

    A process without a task holds nothing, nor does a task that shares nothing (shares=False): it keeps all that uses
    the GPU to its times, and what it does apart from them waits for nobody.
    """

    def __init__(self, path=None, seconds=None, shares=True):
        self.file = open(path, "w") if path else None
        self.seconds = seconds
        self.rest = fcntl.LOCK_SH if shares else fcntl.LOCK_UN
        if seconds:
            signal.signal(signal.SIGALRM, self.stop)

    def stop(self, *_):
        raise OutOfTime(f"not compiled in {self.seconds} s")

    def lock(self, how):
        if self.file:
            fcntl.flock(self.file, how)

    @contextlib.contextmanager
    def shared(self):
        self.lock(self.rest)
        try:
            yield
        finally:
            self.lock(fcntl.LOCK_UN)

    @contextlib.contextmanager
    def limited(self):
        """A compilation ends after `seconds`, as soon as Python runs again."""
        if self.seconds:
            signal.alarm(self.seconds)
        try:
            yield
        finally:
            signal.alarm(0)

    @contextlib.contextmanager
    def alone(self):
        """While no other process of this GPU compiles in its share or takes times."""
        self.lock(fcntl.LOCK_UN)
        self.lock(fcntl.LOCK_EX)
        try:
            yield
        finally:
            # Who waits to take times goes first: it gets the lock while nobody asks for a share.
            self.lock(fcntl.LOCK_UN)
            time.sleep(0.05 if self.file and self.rest == fcntl.LOCK_SH else 0)
            self.lock(self.rest)


def serve(connection, work, given, path, shares):
    """A process: an answer to each task, and whether it goes on with another."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that files and processes of a task end with it
    turns, usable = Turns(path, getattr(given, "model_seconds", None), shares), True
    while usable:
        try:
            task = connection.recv()
        except EOFError:  # nobody asks any more
            return
        if task is None:
            return
        with turns.shared():
            answer, usable = work(task, given, turns)
        connection.send((answer, usable))


def visible_gpus():
    """What CUDA_VISIBLE_DEVICES calls the GPUs that a process sees; None where that is not known."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return os.environ["CUDA_VISIBLE_DEVICES"].split(",")
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return [None]
    return [str(i) for i in range(sum(line.startswith("GPU ") for line in listed))] or [None]


def start(work, given, gpu, path, shares):
    """A process that sees one GPU, or those that this one sees where `gpu` is None, and the connection to it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, work, given, path, shares))
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    try:
        process.start()
    finally:
        if before is None:
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        else:
            os.environ["CUDA_VISIBLE_DEVICES"] = before
    theirs.close()
    return ours, process


def answers(tasks, jobs, work, given, shares=True):
    """Each task and its answer as they come; None is the answer to a task that its process did not survive.

    work(task, given, turns) gives the answer and whether the process can take another task. The processes are spread
    over the GPUs, each of which has a lock of its own.
    """
    gpus = visible_gpus()
    left, free, running = collections.deque(tasks), [], {}   # what waits; (gpu, connection, process); by connection
    with tempfile.TemporaryDirectory(prefix="turns-") as folder:
        locks = [pathlib.Path(folder) / str(i) for i in range(len(gpus))]
        try:
            while left or running:
                while left and len(running) < jobs:
                    if not free:
                        alive = [gpu for gpu, _, _ in running.values()]
                        gpu = min(range(len(gpus)), key=alive.count)
                        free.append((gpu, *start(work, given, gpus[gpu], locks[gpu], shares)))
                    gpu, connection, process = free.pop()
                    running[connection] = gpu, process, left.popleft()
                    connection.send(running[connection][2])
                for connection in multiprocessing.connection.wait(list(running)):
                    gpu, process, task = running.pop(connection)
                    try:
                        answer, usable = connection.recv()
                    except (EOFError, ConnectionError):
                        answer, usable = None, False
                    if usable:
                        free.append((gpu, connection, process))
                    else:
                        process.join()
                    yield task, answer
            for _, connection, process in free:
                connection.send(None)
                process.join()
        finally:
            for process in [process for _, process, _ in running.values()] + [process for _, _, process in free]:
                process.terminate()
