"""Inside a worker process, and the messages it exchanges with the pool."""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import os
import pickle
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import cache
from socket import socket
from struct import Struct
from threading import Thread
from typing import Any

from graphmill.core.errors import Permanent, describe_error
from graphmill.engine.attempts.processes.importable import import_name
from graphmill.engine.failures import failure_of, is_unsent, kind_of, root_cause
from graphmill.engine.jobs import context

PIECE_BYTES = 1 << 16
CALL, VALUE, FAILURE = range(3)

_HEADER = Struct("!QB")


def message(sort: int, pickled: bytes) -> bytes:
    """Encode a message in one piece: a second send would wake the other side twice."""
    return _HEADER.pack(len(pickled), sort) + pickled


class Incoming:
    """Assembles a message from the pieces that a socket returns.

    Each side sends once and then listens, so there is one message at a time.
    """

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces = bytearray()

    def add(self, piece: bytes) -> tuple[int, memoryview] | None:
        """Return type and pickle of a message that is complete now; ConnectionError if there is more than one."""
        if self._pieces:
            self._pieces += piece
            return self._whole(self._pieces)
        whole = self._whole(piece)
        if whole is None:
            self._pieces += piece
        return whole

    def _whole(self, data: bytes | bytearray) -> tuple[int, memoryview] | None:
        if len(data) < _HEADER.size:
            return None
        length, sort = _HEADER.unpack_from(data)
        missing = _HEADER.size + length - len(data)
        if missing > 0:
            return None
        if missing < 0:
            raise ConnectionError("unexpected message")
        self._pieces = bytearray()
        return sort, memoryview(data)[_HEADER.size :]


_PR_SET_PDEATHSIG = 1


def main(descriptor: int, parent: int, accept: tuple[str, str] | None) -> None:
    """Serve until the other side is done; when it dies, end at once, with everything that was started here."""
    _die_with(parent)
    os.set_inheritable(descriptor, False)  # noqa: FBT003
    Thread(target=_watch, args=(descriptor,), name="graphmill-watch", daemon=True).start()
    connection = socket(fileno=descriptor)
    with asyncio.Runner() as runner, suppress(ConnectionError):  # the other side died; end silently
        context.is_worker_process = True
        _serve(connection, _Calls(runner, accept))
    connection.detach()  # only the end of the process closes it: the other side waits for our exit functions


def _serve(connection: socket, calls: _Calls) -> None:
    incoming, own = Incoming(), os.getpid()
    while piece := connection.recv(PIECE_BYTES):
        if (received := incoming.add(piece)) is None:
            continue
        answer = calls.answer(received[1])
        if os.getpid() != own:  # the function has forked, and its copy came back here too
            os._exit(0)
        connection.sendall(answer)
        del piece, received, answer  # an idle worker keeps nothing alive


class _Calls:
    """Calls functions. Whatever one does, except for ending the process, becomes an answer."""

    def __init__(self, runner: asyncio.Runner, accept: tuple[str, str] | None) -> None:
        self._runner = runner
        self._accept = None if accept is None else import_name(*accept)

    def answer(self, request: memoryview) -> bytes:
        """Make a call and return the message with its outcome."""
        try:
            return message(VALUE, _pickle(self._output(*_unpickle(request))))
        except BaseException as raised:  # noqa: BLE001  whatever user code raises is the outcome
            error = root_cause(raised)
            report = failure_of(error, kind_of(error)), _exception(error), is_unsent(error)
            return message(FAILURE, pickle.dumps(report, pickle.HIGHEST_PROTOCOL))
        finally:
            _flush()

    def _output(self, names: tuple[str, str], value: Any) -> Any:
        function = _function(*names)
        output = copy_context().run(function, value)
        if inspect.isawaitable(output):
            output, error = self._runner.run(_outcome_of(output), context=copy_context())
            if error is not None:
                raise error
        return output if self._accept is None else self._accept(output)


@cache
def _function(module: str, name: str) -> Callable[[Any], Any]:
    try:
        function: Callable[[Any], Any] = import_name(module, name)
    except BaseException as error:
        raise Permanent(f"{module}.{name} can't be imported in a worker process: {describe_error(error)}") from error
    return function


async def _outcome_of(awaitable: Any) -> tuple[Any, BaseException | None]:
    """Return the outcome as a value: a SystemExit that leaves a task would stop its loop halfway."""
    try:
        return await awaitable, None
    except BaseException as error:  # noqa: BLE001
        return None, error


def _unpickle(request: memoryview) -> tuple[tuple[str, str], Any]:
    try:
        names, value = pickle.loads(request)  # noqa: S301  from our own parent, by the private socket
    except BaseException as error:
        raise Permanent(f"the item can't be unpickled in a worker process: {describe_error(error)}") from error
    return names, value


def _pickle(output: Any) -> bytes:
    try:
        return pickle.dumps(output, pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        kind = type(output).__qualname__
        raise Permanent(f"the output ({kind}) can't be pickled by a worker process: {describe_error(error)}") from error


def _exception(error: BaseException) -> bytes | None:
    """Pickle an exception; None if it can't be restored."""
    try:
        pickled = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
        is_whole = type(pickle.loads(pickled)) is type(error)  # noqa: S301  made in the line above
    except BaseException:  # noqa: BLE001  many exceptions can be written but not read
        return None
    return pickled if is_whole else None


def _flush() -> None:
    """Write out what was printed: a worker may be killed at any time after its answer."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before prctl
        os._exit(1)


def _watch(descriptor: int) -> None:
    """Kill this process group when the other side of the socket is gone, however busy the function is."""
    poll = select.poll()
    poll.register(descriptor, select.POLLHUP)
    while not any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poll.poll()):
        pass
    os.killpg(0, signal.SIGKILL)
