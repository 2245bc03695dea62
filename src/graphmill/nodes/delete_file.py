"""The delete-file node: a file is taken away."""

from __future__ import annotations

import os
from collections.abc import Mapping
from stat import S_ISLNK
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from graphmill.core.errors import Permanent
from graphmill.nodes.files.node import AllowPaths, FileNode
from graphmill.nodes.files.route import Route
from graphmill.nodes.files.spot import Spot, spot_of


class DeleteFileParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which file."""

    file_path: Annotated[str, Meta(description="The file, relative to the workflow's folder; not a folder.")]
    missing_ok: Annotated[
        bool,
        Meta(
            description="If there is no such file, as after an attempt that was killed, that is well; else it is a permanent failure."
        ),
    ] = True
    allow_paths: AllowPaths = []


class DeleteFile(FileNode[DeleteFileParams]):
    """Deletes a regular file, or a link as such."""

    name = "delete-file"
    summary = "Deletes a file; of a link, the link."
    Params = DeleteFileParams
    outputs: ClassVar[Mapping[str, str]] = {
        "deleted": "true; false if there was no such file",
        "file_path": "the path as it was given",
    }
    in_pieces = frozenset({"file_path"})
    example = """\
- id: tidy
  type: delete-file
  params: {file_path: "scratch/${id}.tmp"}
"""

    def act(self, params: DeleteFileParams, routes: Mapping[str, Route]) -> Mapping[str, Any]:
        """Delete it."""
        return {
            "deleted": _is_deleted(routes["file_path"], is_missed=not params.missing_ok),
            "file_path": str(params.file_path),
        }


def _is_deleted(route: Route, *, is_missed: bool) -> bool:
    try:
        with spot_of(route, is_link_meant=True) as spot:
            return _delete(spot)
    except Permanent as error:
        if is_missed or not isinstance(error.__cause__, FileNotFoundError):
            raise
        return False


def _delete(spot: Spot) -> bool:
    found = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
    if not S_ISLNK(found.st_mode):
        spot.require_file(found)
    os.unlink(spot.name, dir_fd=spot.folder)
    spot.sync_folder()
    return True
