"""Work in processes on this machine, each at the end of its own pipe.

The pool of the standard library breaks as a whole when one process dies, and waits for what runs
when it is closed. Here a dead process alone is replaced, and it is known what it was doing.
"""

import os
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from threading import Thread
from typing import Any

from searches.executors.base import IN_FLIGHT, R, S, T, Tasks

_PATIENCE_S = 5.0
"""How long a process may take to end once its pipe is closed."""


class ProcessExecutor:
    """Processes beside this one, ``workers`` of them."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.name = f"processes:{workers}"

    def run(
        self, function: Callable[[S, T], R], shared: S, items: Sequence[T]
    ) -> Iterator[tuple[int, R]]:
        """Spread the items; each process is told ``function`` and ``shared`` when it starts."""
        work = pickle.dumps((function, shared))
        tasks = Tasks(len(items))
        crew: dict[Connection, _Worker] = {}
        try:
            while True:
                self._hand_out(tasks, items, crew, work)
                busy = [pipe for pipe, worker in crew.items() if worker.held]
                if not busy:
                    return
                for pipe in wait(busy):
                    assert isinstance(pipe, Connection)
                    worker = crew[pipe]
                    try:
                        returned, answer = pipe.recv()
                    except (EOFError, OSError):
                        del crew[pipe]
                        running, *others = worker.held
                        tasks.give_back(others)
                        tasks.lost(running, worker.lost())
                        continue
                    position = worker.held.pop(0)
                    if not returned:
                        raise answer
                    yield position, answer
        finally:
            for worker in crew.values():
                worker.end()

    def _hand_out(
        self, tasks: Tasks, items: Sequence[Any], crew: dict[Connection, "_Worker"], work: bytes
    ) -> None:
        """Give each process its next tasks, the one that holds least first."""
        while tasks:
            if len(crew) < self.workers:
                worker = _Worker(work)
                crew[worker.pipe] = worker
            else:
                worker = min(crew.values(), key=lambda w: len(w.held))
                if len(worker.held) == IN_FLIGHT:
                    return
            position = tasks.take()
            worker.give(position, items[position])


class _Worker:
    """One process, the near end of its pipe, and the positions that it holds, in its order."""

    def __init__(self, work: bytes) -> None:
        # A forked child would inherit the solver's threads in an undefined state.
        context = get_context("spawn")
        self.held: list[int] = []
        self.pipe, far = context.Pipe()
        self._process = context.Process(target=_serve, args=(far,), daemon=True)
        self._process.start()
        far.close()
        self._send(work)

    def give(self, position: int, item: object) -> None:
        """Hand a task over."""
        self.held.append(position)
        self._send(pickle.dumps(item))

    def _send(self, message: bytes) -> None:
        # Who reads from a dead process learns that it is dead.
        with suppress(OSError):
            self.pipe.send_bytes(message)

    def lost(self) -> str:
        """Return how a process ended that does not answer any more."""
        self._process.join(_PATIENCE_S)
        code = self._process.exitcode
        self.end()
        if code is not None and code < 0:
            return f"the process was ended by {signal.Signals(-code).name}"
        return f"the process ended with exit code {code}"

    def end(self) -> None:
        """Kill the process if it still runs."""
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _serve(pipe: Connection) -> None:
    """Answer tasks until this process is killed or the pipe is closed at the other end."""
    # An interrupt of the terminal reaches all processes; the one that asks decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A process has one core: threads of linear algebra would wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    messages: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(pipe, messages), daemon=True).start()
    function, shared = pickle.loads(messages.get())
    while True:
        item = pickle.loads(messages.get())
        try:
            answer = (True, function(shared, item))
        except Exception as error:
            answer = (False, error)
        pipe.send(answer)


def _listen(pipe: Connection, messages: "SimpleQueue[bytes]") -> None:
    """Take messages as they come, so that neither end waits for the other to read."""
    while True:
        try:
            messages.put(pipe.recv_bytes())
        except (EOFError, OSError):
            # Who asked is gone, so nobody wants what is running.
            os._exit(0)
