"""The keeper of a cache: a thread that looks answers up and puts them away, so that no call waits for a disk on the loop."""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio import Future
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from graphmill.core.errors import DamagedError, JournalError, described
from graphmill.engine.threads import Mailbox
from graphmill.journal.sqlite.cache_file import Answer, CacheFile

log = logging.getLogger("graphmill")

_CLOSE_S = 5.0
_MOST_AT_ONCE = 500
_MOST_WAITING = 2000
_warned: set[Path] = set()

Wanted = tuple[bytes, "Future[bytes | None]"]


class Keeper:
    """Looks after one cache for one run. Whatever is wrong with the file, calls go on: it is told once, and done without."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._letters: SimpleQueue[Wanted | Answer | None] = SimpleQueue()
        self._mailbox = Mailbox(asyncio.get_running_loop(), _give)
        self._file: CacheFile | None = None
        self._is_writable = True
        self._thread = Thread(target=self._work, name="graphmill-cache", daemon=True)
        self._thread.start()

    async def find(self, key: bytes) -> bytes | None:
        """Give what is kept by this key."""
        found: Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._letters.put((key, found))
        return await found

    def keep(self, key: bytes, model: str, body: bytes) -> None:
        """Keep an answer, some time soon; where a disk can not keep up, none."""
        if self._letters.qsize() < _MOST_WAITING:
            self._letters.put(Answer(key, model, body))

    async def close(self) -> None:
        """Put away what is left; a disk that does not answer is left alone."""
        self._letters.put(None)
        await asyncio.to_thread(self._thread.join, _CLOSE_S)

    def _work(self) -> None:
        try:
            self._file = CacheFile(self._path, clock=time.time)
        except Exception as error:  # noqa: BLE001  whoever waits for an answer must get one
            self._warn(error)
        while self._serve([self._letters.get(), *self._more()]):
            pass
        if self._file is not None:
            self._file.close()

    def _more(self) -> Iterable[Wanted | Answer | None]:
        with suppress(Empty):
            for _ in range(_MOST_AT_ONCE):
                yield self._letters.get_nowait()

    def _serve(self, letters: list[Wanted | Answer | None]) -> bool:
        """Put away first, so that what was kept is found by whoever asks later; tell whether more will come."""
        self._put_away([letter for letter in letters if isinstance(letter, Answer)])
        for letter in letters:
            if letter is not None and not isinstance(letter, Answer):
                self._mailbox.post((letter[1], self._found(letter[0])))
        return None not in letters

    def _put_away(self, answers: list[Answer]) -> None:
        if answers and self._file is not None and self._is_writable:
            try:
                self._file.keep(answers)
            except Exception as error:  # noqa: BLE001
                self._is_writable = False
                self._fail(error)

    def _found(self, key: bytes) -> bytes | None:
        if self._file is None:
            return None
        try:
            return self._file.find(key)
        except Exception as error:  # noqa: BLE001
            self._fail(error, is_useless=True)
            return None

    def _fail(self, error: Exception, *, is_useless: bool = False) -> None:
        """Do without a file that is damaged or can not be read; one that can only not be written is still read."""
        self._warn(error)
        if self._file is not None and (is_useless or isinstance(error, DamagedError)):
            self._file.close()
            self._file = None

    def _warn(self, error: Exception) -> None:
        if self._path not in _warned:
            _warned.add(self._path)
            log.warning(
                "answers are not kept: %s. Calls go on without it",
                error if isinstance(error, JournalError) else described(error),
            )


def _give(letter: tuple[Future[bytes | None], bytes | None]) -> None:
    future, body = letter
    if not future.done():
        future.set_result(body)
