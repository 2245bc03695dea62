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

from graphmill.core.errors import Permanent, described
from graphmill.engine.attempts.processes.importable import imported
from graphmill.engine.failures import failure_of, is_unsent, kind_of, root_cause
from graphmill.engine.jobs import context

PIECE_BYTES = 1 << 16
CALL, VALUE, FAILURE = range(3)

_HEADER = Struct("!QB")


def message(sort: int, pickled: bytes) -> bytes:
    """Give a message as it is sent, in one piece: a second send would wake the other side twice."""
    return _HEADER.pack(len(pickled), sort) + pickled


class Incoming:
    """Puts a message together from the pieces that a socket gives. Each side speaks once and then listens, so there is one at a time."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces = bytearray()

    def add(self, piece: bytes) -> tuple[int, memoryview] | None:
        """Give sort and pickle of the message that is now whole, if it is; ConnectionError if there is more than one."""
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
            raise ConnectionError("the other side spoke out of turn")
        self._pieces = bytearray()
        return sort, memoryview(data)[_HEADER.size :]


_PR_SET_PDEATHSIG = 1


def main(descriptor: int, parent: int, accept: tuple[str, str] | None) -> None:
    """Serve until the other side is done with us; end at once, with all that was started here, when it dies."""
    _die_with(parent)
    os.set_inheritable(descriptor, False)  # noqa: FBT003
    Thread(target=_watch, args=(descriptor,), name="graphmill-watch", daemon=True).start()
    connection = socket(fileno=descriptor)
    with asyncio.Runner() as runner, suppress(ConnectionError):  # the other side died; so do we, in silence
        context.is_worker_process = True
        _serve(connection, _Calls(runner, accept))
    connection.detach()  # its end tells the other side that this process is over, which it is only after its exit functions


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
    """Calls functions; whatever one does, short of ending the process, becomes an answer."""

    def __init__(self, runner: asyncio.Runner, accept: tuple[str, str] | None) -> None:
        self._runner = runner
        self._accept = None if accept is None else imported(*accept)

    def answer(self, request: memoryview) -> bytes:
        """Do what is asked and give the message that says how it went."""
        try:
            return message(VALUE, _packed(self._output(*_unpacked(request))))
        except BaseException as raised:  # noqa: BLE001  a surprise in user code is that attempt's outcome
            error = root_cause(raised)
            report = failure_of(error, kind_of(error)), _exception(error), is_unsent(error)
            return message(FAILURE, pickle.dumps(report, pickle.HIGHEST_PROTOCOL))
        finally:
            _flush()

    def _output(self, names: tuple[str, str], value: Any) -> Any:
        function = _function(*names)
        output = copy_context().run(function, value)
        if inspect.isawaitable(output):
            output, error = self._runner.run(_awaited(output), context=copy_context())
            if error is not None:
                raise error
        return output if self._accept is None else self._accept(output)


@cache
def _function(module: str, name: str) -> Callable[[Any], Any]:
    try:
        function: Callable[[Any], Any] = imported(module, name)
    except BaseException as error:
        raise Permanent(f"{module}.{name} can not be imported in a worker process: {described(error)}") from error
    return function


async def _awaited(awaitable: Any) -> tuple[Any, BaseException | None]:
    """Give the outcome as a value: a SystemExit that leaves a task would leave its loop half way."""
    try:
        return await awaitable, None
    except BaseException as error:  # noqa: BLE001
        return None, error


def _unpacked(request: memoryview) -> tuple[tuple[str, str], Any]:
    try:
        names, value = pickle.loads(request)  # noqa: S301  from our own parent, by the private socket
    except BaseException as error:
        raise Permanent(f"the item can not be read in a worker process: {described(error)}") from error
    return names, value


def _packed(output: Any) -> bytes:
    try:
        return pickle.dumps(output, pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        kind = type(output).__qualname__
        raise Permanent(f"the output ({kind}) can not be sent back by a worker process: {described(error)}") from error


def _exception(error: BaseException) -> bytes | None:
    """Give an exception in a form that can be sent; None for one that would not arrive."""
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
    if os.getppid() != parent:  # it died before we had asked to be told
        os._exit(1)


def _watch(descriptor: int) -> None:
    """Kill this process group when the other side of the socket is gone, however busy the function is."""
    poll = select.poll()
    poll.register(descriptor, select.POLLHUP)
    while not any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poll.poll()):
        pass
    os.killpg(0, signal.SIGKILL)
