"""The write-file node: content put in a file's place in one act, or at its end."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from graphmill.core.errors import Permanent
from graphmill.graph.node_type import ParamError, Site
from graphmill.nodes.files.content import Format, format_of, text_chunks
from graphmill.nodes.files.draft import draft_for, write_chunks
from graphmill.nodes.files.encoding import BINARY, encoded, require_encoding
from graphmill.nodes.files.node import AllowPaths, CreateFolders, Encoding, FileNode
from graphmill.nodes.files.route import Route
from graphmill.nodes.files.spot import Spot, spot_of


class WriteFileParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which file, and what is written to it how."""

    file_path: Annotated[str, Meta(description="The file, relative to the workflow's folder.")]
    content: Annotated[
        Any, Meta(description="Text is written as it is, a number as in a text, a list or mapping as JSON.")
    ]
    append: Annotated[
        bool,
        Meta(
            description="Write at the end of the file, whole even if many append at once; what is repeated after a crash or a time-out may "
            "stand there twice, unless the node has `effect: unsafe`. Without it the file is replaced in one act."
        ),
    ] = False
    format: Annotated[
        Format | None,
        Meta(
            description="`text`, `json`, or `jsonl`: each entry of a list is a line, as is the rule for `.jsonl` and `.ndjson`."
        ),
    ] = None
    encoding: Encoding = "utf-8"
    content_is_binary: Annotated[
        bool, Meta(description="The content is base64, as with `encoding: binary`; read-file gives it.")
    ] = False
    mode: Annotated[
        Annotated[str, Meta(pattern="^0?[0-7]{3}$")] | None,
        Meta(
            description='Permissions as octal text, such as "600". Left out: those of the file that is replaced, or the usual ones.'
        ),
    ] = None
    create_folders: CreateFolders = True
    allow_paths: AllowPaths = []


class WriteFile(FileNode[WriteFileParams]):
    """Writes a regular file, new or not."""

    name = "write-file"
    summary = "Writes a file: replaces it in one act, or appends to it."
    Params = WriteFileParams
    outputs: ClassVar[Mapping[str, str]] = {
        "written": "true",
        "size": "how many bytes were written",
        "file_path": "the path as it was given",
    }
    in_pieces = frozenset({"file_path"})
    streamed = frozenset({"content"})
    example = """\
- id: save
  type: write-file
  params: {file_path: "answers/${id}.json", content: "${solve.result}"}
- id: log
  type: write-file
  params: {file_path: log.txt, content: "${id} is done\\n", append: true}
"""

    def check(self, params: Mapping[str, Any], site: Site) -> None:
        """Refuse what can not go together, too."""
        super().check(params, site)
        if params.get("encoding") == BINARY and params.get("format") is not None:
            raise ParamError("format: binary content is base64 text and has no format; leave one out", at=("format",))

    def act(self, params: WriteFileParams, routes: Mapping[str, Route]) -> Mapping[str, Any]:
        """Write it."""
        with spot_of(routes["file_path"], creates=params.create_folders) as spot:
            size = (_append if params.append else _replace)(spot, params)
        return {"written": True, "size": size, "file_path": str(params.file_path)}


def _replace(spot: Spot, params: WriteFileParams) -> int:
    with draft_for(spot, mode=_mode(params)) as draft:
        size = write_chunks(draft.file, _bytes(params))
        draft.place(overwrites=True)
    return size


def _append(spot: Spot, params: WriteFileParams) -> int:
    """Write at the end; what fails half-way is taken back."""
    _require_appendable(params.encoding)
    is_new = spot.file() is None
    with spot.opened(os.O_WRONLY | os.O_APPEND | os.O_CREAT) as file:
        if is_new and (mode := _mode(params)) is not None:
            os.fchmod(file, mode)
        with _locked(file):
            end = os.fstat(file).st_size
            try:
                size = write_chunks(file, _bytes(params, is_first=end == 0))
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(file, end)
                raise
        os.fsync(file)
    if is_new:
        spot.sync_folder()
    return size


@contextmanager
def _locked(file: int) -> Iterator[None]:
    """Keep others who append here, in any process, waiting; a file system without locks goes without."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)


def _bytes(params: WriteFileParams, *, is_first: bool = True) -> Iterator[bytes]:
    if params.content_is_binary or params.encoding == BINARY:
        if not isinstance(params.content, str):
            raise Permanent("content: binary content is given as base64 text")
        return encoded([params.content], BINARY)
    form = params.format or format_of(params.content, params.file_path)
    return encoded(text_chunks(params.content, form), params.encoding, is_first=is_first)


def _require_appendable(encoding: str) -> None:
    try:
        require_encoding(encoding, appends=True)
    except ValueError as error:
        raise Permanent(f"encoding: {error}") from error


def _mode(params: WriteFileParams) -> int | None:
    return None if params.mode is None else int(params.mode, 8)
