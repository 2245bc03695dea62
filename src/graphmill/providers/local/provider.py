"""The provider ``local``: starts a server for each model at its first call; speaks chat completions."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import msgspec

from graphmill.core.errors import AttemptError, Transient, Unavailable, cut
from graphmill.core.model_call import ModelRequest, ModelResponse
from graphmill.engine.monitor.machine import usable_cores
from graphmill.http.connection import HttpClient
from graphmill.providers.local.files import find_model_file, pulled_models
from graphmill.providers.openai import OpenAI

SLOTS = 4
_CONTEXT = 8192  # tokens, shared by all slots
_SERVER = Path(__file__).with_name("__main__.py")
_MAX_SAID_CHARS = 300
_HUNDREDTHS = (0, *(number / 100 for number in range(1, 100)), 1)


class Local(OpenAI):
    """GGUF models on this machine. The address is a file; without one the model is a path or a known name."""

    name = "local"
    default_address = ""
    address_variable = ""
    key_variable = ""
    is_free = True
    slots = SLOTS

    def require(self, address: str, model: str) -> None:
        """Check before the first item for llama.cpp and the model's file; Unavailable says what is missing."""
        _require_llama()
        if model:
            find_model_file(model, address)

    def open(self) -> LocalServers:  # type: ignore[override]  # its session is not only a client
        """Make what the calls of a run share."""
        return LocalServers()

    async def complete(  # type: ignore[override]
        self,
        request: ModelRequest,
        *,
        session: LocalServers,
        address: str,
        key: str | None,
        headers: Mapping[str, str],
        timeout_s: float | None,
    ) -> ModelResponse:
        """Call the model once; if its server has crashed, start another one before the next call."""
        del key
        server = await session.find(request.model, address)
        try:
            return await super().complete(
                request,
                session=session.client,
                address=server.address,
                key=server.key,
                headers=headers,
                timeout_s=timeout_s,
            )
        except (Transient, Unavailable) as error:
            raise server.explain(error) from None

    def build_body(self, request: ModelRequest, address: str) -> dict[str, Any]:
        """Write a request; its schema becomes one whose numbers a grammar can hold to their bounds."""
        if request.schema is not None:
            request = msgspec.structs.replace(request, schema=_with_steps(request.schema))
        return super().build_body(request, address)

    async def models(  # type: ignore[override]
        self,
        *,
        session: LocalServers,
        address: str,
        key: str | None,
        headers: Mapping[str, str],
        timeout_s: float | None,
    ) -> list[str]:
        """List the models that have been downloaded."""
        del session, address, key, headers, timeout_s
        return pulled_models()


class LocalServers:
    """What the calls of a run share: a client, and a server for each model."""

    def __init__(self) -> None:
        self.client = HttpClient()
        self._servers: dict[tuple[str, str], LocalServer] = {}

    async def find(self, model: str, address: str) -> LocalServer:
        """Return the running server of a model; start one if there is none, or if it has ended."""
        server = self._servers.get((model, address))
        if server is not None and server.is_over():
            server.close()
            server = None
        if server is None:
            _require_llama()
            server = self._servers[model, address] = LocalServer(find_model_file(model, address), model)
        await server.wait_ready()
        return server

    async def close(self) -> None:
        """End all servers."""
        for server in self._servers.values():
            server.close()
        await self.client.close()


class LocalServer:
    """One server process, started at once; ``wait_ready`` waits until its model is loaded."""

    def __init__(self, path: Path, model: str) -> None:
        self.address = ""
        self.key = secrets.token_urlsafe(24)
        self._path = path
        self._loading = asyncio.Lock()
        self._failure = ""
        wanted = self._wanted(model)
        self._stderr = TemporaryFile(buffering=0)  # noqa: SIM115  closed with the server
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)  # noqa: FBT003
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-P", str(_SERVER)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                start_new_session=True,  # Ctrl-C stops the run, which then ends its servers
            )
        self._socket.send(json.dumps(wanted).encode() + b"\n")

    async def wait_ready(self) -> None:
        """Wait until the model is loaded, or raise Unavailable. Cancelling a caller does not end the loading."""
        async with self._loading:
            if not self.address and not self._failure:
                await self._receive_address()
        if self._failure:
            raise Unavailable(f"local: cannot load {self._path}: {cut(self._failure, _MAX_SAID_CHARS)}")

    def is_over(self) -> bool:
        """Whether the model could not be loaded, or the process has ended since."""
        return bool(self._failure) or (bool(self.address) and self._process.poll() is not None)

    def explain(self, error: AttemptError) -> AttemptError:
        """Return the error of a call: Transient if the server has crashed, since the next call starts another one."""
        if isinstance(error, Transient) and not self.is_over():
            return error
        made = Transient(
            f"local: the server of {self._path.name} has crashed{self._end()}; the next call starts another"
        )
        made.usage = error.usage
        return made

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._socket.close()
        self._stderr.close()

    def _wanted(self, model: str) -> dict[str, Any]:
        return {
            "path": str(self._path),
            "name": model,
            "key": self.key,
            "slots": SLOTS,
            "context": _setting("GRAPHMILL_LOCAL_CONTEXT", _CONTEXT),
            "threads": _setting("GRAPHMILL_LOCAL_THREADS", max(1, usable_cores() - 1)),
        }

    async def _receive_address(self) -> None:
        try:
            received = await asyncio.get_running_loop().sock_recv(self._socket, 4096)
        except OSError:
            received = b""
        said = json.loads(received or b"{}")
        self.address = said.get("address", "")
        if not self.address:
            self._process.wait()
            self._failure = " ".join(filter(None, (said.get("error", f"it ended{self._end()}"), self._last_words())))

    def _end(self) -> str:
        """Say how the process ended."""
        status = self._process.poll()
        if status is None:
            return ""
        return f" (signal {-status})" if status < 0 else f" (exit status {status})"

    def _last_words(self) -> str:
        self._stderr.seek(0)
        return " ".join(self._stderr.read()[-2000:].decode(errors="replace").split())


def _setting(variable: str, default: int) -> int:
    """Read a setting from the environment."""
    text = os.environ.get(variable) or str(default)
    if not text.isdecimal() or int(text) < 1:
        raise Unavailable(f"local: {variable} must be an integer >= 1, got {text!r:.40}")
    return int(text)


def _require_llama() -> None:
    if find_spec("xllamacpp") is None:
        raise Unavailable("local: models on this machine need xllamacpp; run: pip install 'graphmill[local]'")


def _with_steps(schema: Any) -> Any:
    """List the values of numbers from 0 to 1, in hundredths: llama.cpp's grammars know bounds of whole numbers only."""
    if isinstance(schema, list):
        return [_with_steps(entry) for entry in schema]
    if not isinstance(schema, Mapping):
        return schema
    least, most = schema.get("minimum"), schema.get("maximum")
    if schema.get("type") != "number" or least is None or most is None or least < 0 or most > 1:
        return {name: _with_steps(value) for name, value in schema.items()}
    return {"enum": [value for value in _HUNDREDTHS if least <= value <= most] or [least]}
