"""Processes that compile side by side and take times one at a time."""

import collections
import contextlib
import fcntl
import multiprocessing
import multiprocessing.connection
import signal
import tempfile
import time


class OutOfTime(BaseException):
    """A time limit; not an Exception, so that what a compiler catches does not end with it."""


class Turns:
    """A process's share of the machine: a lock of a file, held shared by a task but for its times, which hold it alone.

    A process without a task holds nothing.
    """

    def __init__(self, path=None, seconds=None):
        self.file = open(path, "w") if path else None
        self.seconds = seconds
        if seconds:
            signal.signal(signal.SIGALRM, self.stop)

    def stop(self, *_):
        raise OutOfTime(f"not compiled in {self.seconds} s")

    def lock(self, how):
        if self.file:
            fcntl.flock(self.file, how)

    @contextlib.contextmanager
    def shared(self):
        self.lock(fcntl.LOCK_SH)
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
        """While no other process compiles or takes times."""
        self.lock(fcntl.LOCK_UN)
        self.lock(fcntl.LOCK_EX)
        try:
            yield
        finally:
            # Who waits to take times goes first: it gets the lock while nobody asks for a share.
            self.lock(fcntl.LOCK_UN)
            time.sleep(0.05 if self.file else 0)
            self.lock(fcntl.LOCK_SH)


def serve(connection, work, given, path):
    """A process: an answer to each task, and whether it goes on with another."""
    turns, usable = Turns(path, given.model_seconds), True
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


def answers(tasks, jobs, work, given):
    """Each task and its answer as they come; None is the answer to a task that its process did not survive.

    work(task, given, turns) gives the answer and whether the process can take another task.
    """
    context = multiprocessing.get_context("spawn")
    left, free, running = collections.deque(tasks), [], {}
    with tempfile.NamedTemporaryFile(prefix="turns-") as lock:
        try:
            while left or running:
                while left and len(running) < jobs:
                    if not free:
                        ours, theirs = context.Pipe()
                        process = context.Process(target=serve, args=(theirs, work, given, lock.name))
                        process.start()
                        theirs.close()
                        free.append((ours, process))
                    connection, process = free.pop()
                    running[connection] = process, left.popleft()
                    connection.send(running[connection][1])
                for connection in multiprocessing.connection.wait(list(running)):
                    process, task = running.pop(connection)
                    try:
                        answer, usable = connection.recv()
                    except (EOFError, ConnectionError):
                        answer, usable = None, False
                    if usable:
                        free.append((connection, process))
                    else:
                        process.join()
                    yield task, answer
            for connection, process in free:
                connection.send(None)
                process.join()
        finally:
            for process in [process for process, _ in running.values()] + [process for _, process in free]:
                process.terminate()
