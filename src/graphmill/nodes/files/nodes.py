"""The file nodes: read-file, write-file, copy-file, move-file and delete-file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from errno import ENOENT
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta

from graphmill.core.errors import Permanent
from graphmill.engine.attempts.workers import call
from graphmill.graph.node_params import is_open
from graphmill.graph.node_type import Context, NodeType, ParamError, Site
from graphmill.nodes.files.content import BINARY, FileFormat, check_encoding, decode, encode, format_of, text_chunks
from graphmill.nodes.files.operations import (
    append,
    copy_bytes,
    create_folders,
    move,
    opened,
    read_file,
    replacement,
    require_file_or_link,
    status_of,
    sync_folder,
    write_all,
)
from graphmill.nodes.files.paths import FilePath, check_folder, check_path, file_errors, resolve_path

P = TypeVar("P", bound=msgspec.Struct)


AllowPaths = Annotated[
    list[str],
    Meta(description="More folders, relative to the workflow's or absolute, to which a template or a link may lead."),
]
CreateFolders = Annotated[bool, Meta(description="Create missing folders.")]
Encoding = Annotated[
    str,
    Meta(
        description="Encoding of the text; line ends are unchanged. `binary`: the content is base64. `utf-8-sig`: "
        "UTF-8 with a mark."
    ),
]


class FileNode(NodeType[P]):
    """A node type whose params in ``in_pieces`` are paths."""

    untemplated: ClassVar[frozenset[str]] = frozenset({"allow_paths", "encoding", "format", "mode"})
    follows_links: ClassVar[bool] = True

    def check(self, params: Mapping[str, Any], site: Site) -> None:
        """Refuse paths and encodings that cannot be right, as far as they are written out."""
        del site
        for name in sorted(self.in_pieces & params.keys()):
            if not isinstance(params[name], str):
                raise ParamError(
                    f"{name} must be text; a path appears in outputs and messages, so it cannot be a secret", at=(name,)
                )
            if not is_open(params[name]):
                _check((name,), check_path, params[name])
        for number, folder in enumerate(params.get("allow_paths", ())):
            _check(("allow_paths", number), check_folder, folder)
        if "encoding" in params:
            _check(("encoding",), partial(check_encoding, appends=params.get("append") is True), params["encoding"])

    async def run(self, params: P, context: Context) -> Mapping[str, Any]:
        """Resolve the paths and do the work in a thread."""
        return await call(self._act, params, context.root)  # type: ignore[no-any-return]

    def _act(self, params: P, root: Path | None) -> Mapping[str, Any]:
        allowed: list[str] = params.allow_paths  # type: ignore[attr-defined]
        follows = self.follows_links
        paths = {
            name: resolve_path(name, getattr(params, name), root=root, allowed=allowed, follows_link=follows)
            for name in sorted(self.in_pieces)
        }
        return self.act(params, paths)

    def act(self, params: P, paths: Mapping[str, FilePath]) -> Mapping[str, Any]:
        """Do what the node does, with its resolved paths."""
        raise NotImplementedError


class ReadFileParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which file, and how to read it."""

    file_path: Annotated[str, Meta(description="The file, relative to the workflow's folder.")]
    encoding: Encoding = "utf-8"
    max_bytes: Annotated[int, Meta(ge=1, description="A larger file is a permanent failure.")] = 64 * 2**20
    allow_paths: AllowPaths = []


class ReadFileNode(FileNode[ReadFileParams]):
    """Reads a regular file to its end."""

    name = "read-file"
    summary = "Reads a file: its text, or its bytes as base64."
    Params = ReadFileParams
    outputs: ClassVar[Mapping[str, str]] = {
        "content": "the text, unchanged; base64 with `encoding: binary`",
        "content_is_binary": "whether it is base64",
        "size": "how many bytes the file has",
        "file_path": "the path as given",
    }
    in_pieces = frozenset({"file_path"})
    example = """\
- id: letter
  type: read-file
  params: {file_path: "letters/${name}.txt"}
"""

    def act(self, params: ReadFileParams, paths: Mapping[str, FilePath]) -> Mapping[str, Any]:
        """Read it."""
        data = read_file(paths["file_path"], params.max_bytes)
        return {
            "content": decode(data, params.encoding),
            "content_is_binary": params.encoding == BINARY,
            "size": len(data),
            "file_path": str(params.file_path),
        }


class WriteFileParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which file, and what to write to it."""

    file_path: Annotated[str, Meta(description="The file, relative to the workflow's folder.")]
    content: Annotated[Any, Meta(description="Text is written unchanged, a number as text, a list or mapping as JSON.")]
    append: Annotated[
        bool,
        Meta(
            description="Write at the end of the file, in one piece even if many append at once; after a crash or "
            "timeout the retry may write it twice, unless the node has `effect: unsafe`. Without it, the file is "
            "replaced in one step."
        ),
    ] = False
    format: Annotated[
        FileFormat | None,
        Meta(
            description="`text`, `json`, or `jsonl`: one line for each entry of a list, the default for `.jsonl` and "
            "`.ndjson`."
        ),
    ] = None
    encoding: Encoding = "utf-8"
    content_is_binary: Annotated[
        bool, Meta(description="The content is base64, as with `encoding: binary`; an output of read-file.")
    ] = False
    mode: Annotated[
        Annotated[str, Meta(pattern="^0?[0-7]{3}$")] | None,
        Meta(
            description='Permissions in octal, such as "600". Default: those of the replaced file, or the usual ones.'
        ),
    ] = None
    create_folders: CreateFolders = True
    allow_paths: AllowPaths = []


class WriteFileNode(FileNode[WriteFileParams]):
    """Replaces or appends to a regular file."""

    name = "write-file"
    summary = "Writes a file: replaces it in one step, or appends to it."
    Params = WriteFileParams
    outputs: ClassVar[Mapping[str, str]] = {
        "written": "true",
        "size": "how many bytes were written",
        "file_path": "the path as given",
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
        """Refuse a format for binary content, too."""
        super().check(params, site)
        if params.get("encoding") == BINARY and params.get("format") is not None:
            raise ParamError("format: binary content has no format; leave one out", at=("format",))

    def act(self, params: WriteFileParams, paths: Mapping[str, FilePath]) -> Mapping[str, Any]:
        """Write it."""
        path, mode = paths["file_path"], None if params.mode is None else int(params.mode, 8)
        with file_errors(path):
            if params.create_folders:
                create_folders(path)
            if params.append:
                _check_appendable(params.encoding)
                size = append(path, partial(_bytes_of, params), mode=mode)
            else:
                with replacement(path, mode=mode) as file:
                    size = write_all(file, _bytes_of(params))
        return {"written": True, "size": size, "file_path": str(params.file_path)}


class CopyFileParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """From where to where."""

    source_path: Annotated[str, Meta(description="The file, relative to the workflow's folder.")]
    dest_path: Annotated[str, Meta(description="The copy: a file, not a folder.")]
    overwrite: Annotated[
        bool,
        Meta(
            description="Replace an existing file in one step. Without it, one with other content is a permanent "
            "failure."
        ),
    ] = False
    create_folders: CreateFolders = True
    allow_paths: AllowPaths = []


class CopyFileNode(FileNode[CopyFileParams]):
    """Copies a regular file: bytes, permissions and time."""

    name = "copy-file"
    summary = "Copies a file; of a link, the file it leads to."
    Params = CopyFileParams
    outputs: ClassVar[Mapping[str, str]] = {
        "copied": "true, also if the copy existed already with the same content",
        "size": "how many bytes the file has",
        "source_path": "the path as given",
        "dest_path": "the path as given",
    }
    in_pieces = frozenset({"source_path", "dest_path"})
    example = """\
- id: keep
  type: copy-file
  params: {source_path: report.md, dest_path: "archive/${day}.md"}
"""

    def act(self, params: CopyFileParams, paths: Mapping[str, FilePath]) -> Mapping[str, Any]:
        """Copy it."""
        source, dest = paths["source_path"], paths["dest_path"]
        with file_errors(source), opened(source, os.O_RDONLY) as file, file_errors(dest):
            if params.create_folders:
                create_folders(dest)
            size = copy_bytes(file, source, dest, overwrite=params.overwrite)
        return {
            "copied": True,
            "size": size,
            "source_path": str(params.source_path),
            "dest_path": str(params.dest_path),
        }


class MoveFileParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """From where to where."""

    source_path: Annotated[str, Meta(description="The file, relative to the workflow's folder.")]
    dest_path: Annotated[str, Meta(description="Its new name: a file, not a folder.")]
    overwrite: Annotated[
        bool,
        Meta(description="Replace an existing file in one step. Without it, an existing file is a permanent failure."),
    ] = False
    create_folders: CreateFolders = True
    allow_paths: AllowPaths = []


class MoveFileNode(FileNode[MoveFileParams]):
    """Moves a regular file, or a link itself."""

    name = "move-file"
    summary = "Moves a file; a link is moved itself, not the file it leads to."
    Params = MoveFileParams
    outputs: ClassVar[Mapping[str, str]] = {
        "moved": "true",
        "source_path": "the path as given",
        "dest_path": "the path as given",
    }
    in_pieces = frozenset({"source_path", "dest_path"})
    follows_links = False
    example = """\
- id: done
  type: move-file
  params: {source_path: "inbox/${name}", dest_path: "done/${name}"}
"""

    def act(self, params: MoveFileParams, paths: Mapping[str, FilePath]) -> Mapping[str, Any]:
        """Move it."""
        source, dest = paths["source_path"], paths["dest_path"]
        with file_errors(source):
            found = status_of(source)
            if found is None:
                raise source.refusal(
                    f"no such file; an attempt that was killed may have moved it to {dest.shown} already"
                )
            require_file_or_link(source, found)
        with file_errors(dest):
            if params.create_folders:
                create_folders(dest)
            move(source, dest, overwrite=params.overwrite)
            sync_folder(dest)
            sync_folder(source)
        return {"moved": True, "source_path": str(params.source_path), "dest_path": str(params.dest_path)}


class DeleteFileParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which file."""

    file_path: Annotated[str, Meta(description="The file, relative to the workflow's folder; not a folder.")]
    missing_ok: Annotated[
        bool,
        Meta(
            description="Succeed if there is no such file, as after an attempt that was killed; otherwise that is a "
            "permanent failure."
        ),
    ] = True
    allow_paths: AllowPaths = []


class DeleteFileNode(FileNode[DeleteFileParams]):
    """Deletes a regular file, or a link itself."""

    name = "delete-file"
    summary = "Deletes a file; of a link, the link."
    Params = DeleteFileParams
    outputs: ClassVar[Mapping[str, str]] = {
        "deleted": "true; false if there was no such file",
        "file_path": "the path as given",
    }
    in_pieces = frozenset({"file_path"})
    follows_links = False
    example = """\
- id: tidy
  type: delete-file
  params: {file_path: "scratch/${id}.tmp"}
"""

    def act(self, params: DeleteFileParams, paths: Mapping[str, FilePath]) -> Mapping[str, Any]:
        """Delete it."""
        path = paths["file_path"]
        with file_errors(path):
            found = status_of(path)
            if found is None and not params.missing_ok:
                raise FileNotFoundError(ENOENT, os.strerror(ENOENT))
            if found is not None:
                require_file_or_link(path, found)
                with suppress(FileNotFoundError):
                    path.real.unlink()
                sync_folder(path)
        return {"deleted": found is not None, "file_path": str(params.file_path)}


def _check(at: tuple[str | int, ...], check: Callable[[str], None], written: str) -> None:
    try:
        check(written)
    except ValueError as error:
        raise ParamError(f"{at[0]}: {error}", at=at) from error


def _bytes_of(params: WriteFileParams, end: int = 0) -> Iterator[bytes]:
    """Encode the content, to stand behind ``end`` bytes."""
    if params.content_is_binary or params.encoding == BINARY:
        if not isinstance(params.content, str):
            raise Permanent("content: binary content must be base64 text")
        return encode([params.content], BINARY)
    form = params.format or format_of(params.content, params.file_path)
    return encode(text_chunks(params.content, form), params.encoding, is_first=end == 0)


def _check_appendable(encoding: str) -> None:
    try:
        check_encoding(encoding, appends=True)
    except ValueError as error:
        raise Permanent(f"encoding: {error}") from error
