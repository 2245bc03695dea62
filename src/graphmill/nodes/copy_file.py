"""The copy-file node: a file's bytes, permissions and time, under another name too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from graphmill.nodes.files.copying import copy_bytes
from graphmill.nodes.files.node import AllowPaths, CreateFolders, FileNode
from graphmill.nodes.files.route import Route
from graphmill.nodes.files.spot import spot_of


class CopyFileParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """From where to where."""

    source_path: Annotated[str, Meta(description="The file, relative to the workflow's folder.")]
    dest_path: Annotated[str, Meta(description="Its other name: a file, not a folder.")]
    overwrite: Annotated[
        bool,
        Meta(
            description="Replace a file of that name, in one act. Without it one that has other bytes is a permanent failure."
        ),
    ] = False
    create_folders: CreateFolders = True
    allow_paths: AllowPaths = []


class CopyFile(FileNode[CopyFileParams]):
    """Copies a regular file."""

    name = "copy-file"
    summary = "Copies a file; a link is not copied, but the file that it leads to."
    Params = CopyFileParams
    outputs: ClassVar[Mapping[str, str]] = {
        "copied": "true; also if the destination had the same bytes already",
        "size": "how many bytes the file has",
        "source_path": "the path as it was given",
        "dest_path": "the path as it was given",
    }
    in_pieces = frozenset({"source_path", "dest_path"})
    example = """\
- id: keep
  type: copy-file
  params: {source_path: report.md, dest_path: "archive/${day}.md"}
"""

    def act(self, params: CopyFileParams, routes: Mapping[str, Route]) -> Mapping[str, Any]:
        """Copy it."""
        with ExitStack() as stack:
            source = stack.enter_context(spot_of(routes["source_path"]))
            file = stack.enter_context(source.opened(os.O_RDONLY))
            dest = stack.enter_context(spot_of(routes["dest_path"], creates=params.create_folders))
            size = copy_bytes(file, routes["source_path"], dest, overwrites=params.overwrite)
        return {
            "copied": True,
            "size": size,
            "source_path": str(params.source_path),
            "dest_path": str(params.dest_path),
        }
