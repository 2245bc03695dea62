"""The move-file node: a file gets another name, in another folder or not."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping
from contextlib import ExitStack
from errno import EXDEV
from stat import S_ISLNK
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from graphmill.nodes.files.copying import copy_bytes
from graphmill.nodes.files.draft import put_new
from graphmill.nodes.files.node import AllowPaths, CreateFolders, FileNode
from graphmill.nodes.files.route import Route
from graphmill.nodes.files.spot import Spot, spot_of


class MoveFileParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """From where to where."""

    source_path: Annotated[str, Meta(description="The file, relative to the workflow's folder.")]
    dest_path: Annotated[str, Meta(description="Its new name: a file, not a folder.")]
    overwrite: Annotated[
        bool,
        Meta(
            description="Replace a file of that name, in one act. Without it one that is there is a permanent failure."
        ),
    ] = False
    create_folders: CreateFolders = True
    allow_paths: AllowPaths = []


class MoveFile(FileNode[MoveFileParams]):
    """Moves a regular file, or a link as such."""

    name = "move-file"
    summary = "Moves a file; a link is moved itself, not the file that it leads to."
    Params = MoveFileParams
    outputs: ClassVar[Mapping[str, str]] = {
        "moved": "true",
        "source_path": "the path as it was given",
        "dest_path": "the path as it was given",
    }
    in_pieces = frozenset({"source_path", "dest_path"})
    example = """\
- id: done
  type: move-file
  params: {source_path: "inbox/${name}", dest_path: "done/${name}"}
"""

    def act(self, params: MoveFileParams, routes: Mapping[str, Route]) -> Mapping[str, Any]:
        """Move it."""
        with ExitStack() as stack:
            source = stack.enter_context(spot_of(routes["source_path"], is_link_meant=True))
            _require_source(source, routes["dest_path"])
            dest = stack.enter_context(spot_of(routes["dest_path"], creates=params.create_folders, is_link_meant=True))
            _move(source, dest, routes["source_path"], overwrites=params.overwrite)
            dest.sync_folder()
            source.sync_folder()
        return {"moved": True, "source_path": str(params.source_path), "dest_path": str(params.dest_path)}


def _require_source(source: Spot, dest: Route) -> None:
    found = source.status()
    if found is None:
        raise source.refusal(
            f"there is no such file; an attempt that was killed may have moved it to {dest.shown} already"
        )
    if not S_ISLNK(found.st_mode):
        source.require_file(found)


def _move(source: Spot, dest: Spot, route: Route, *, overwrites: bool) -> None:
    there = dest.status()
    if there is not None and not S_ISLNK(there.st_mode):
        dest.require_file(there)
    try:
        if _is_one_file(source, there):
            _leave_one_name(source, dest)
        elif overwrites:
            os.replace(source.name, dest.name, src_dir_fd=source.folder, dst_dir_fd=dest.folder)
        else:
            put_new(source.folder, source.name, dest)
    except OSError as error:
        if error.errno != EXDEV:
            raise
        _require_no_link(source)
        with source.opened(os.O_RDONLY) as file:
            copy_bytes(file, route, dest, overwrites=overwrites)
        os.unlink(source.name, dir_fd=source.folder)


def _require_no_link(source: Spot) -> None:
    if (found := source.status()) is not None and S_ISLNK(found.st_mode):
        raise source.refusal("a link can not be moved to another disk; move the file that it leads to")


def _is_one_file(source: Spot, there: os.stat_result | None) -> bool:
    here = source.status()
    return here is not None and there is not None and os.path.samestat(here, there)


def _leave_one_name(source: Spot, dest: Spot) -> None:
    """End a move that was killed between the new name and the old; a name that differs in case only may be the same one."""
    is_one_folder = os.path.samestat(os.fstat(source.folder), os.fstat(dest.folder))
    if not is_one_folder or _folded(source.name) != _folded(dest.name):
        os.unlink(source.name, dir_fd=source.folder)
    elif source.name != dest.name:
        os.rename(source.name, dest.name, src_dir_fd=source.folder, dst_dir_fd=dest.folder)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
