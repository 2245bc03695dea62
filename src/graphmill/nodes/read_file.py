"""The read-file node: a file's content as text, or as base64."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from graphmill.nodes.files.encoding import BINARY, decoded
from graphmill.nodes.files.node import AllowPaths, Encoding, FileNode
from graphmill.nodes.files.route import Route
from graphmill.nodes.files.spot import Spot, spot_of

_AT_ONCE = 2**20


class ReadFileParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which file, and how it is read."""

    file_path: Annotated[str, Meta(description="The file, relative to the workflow's folder.")]
    encoding: Encoding = "utf-8"
    max_bytes: Annotated[int, Meta(ge=1, description="A larger file is a permanent failure.")] = 64 * 2**20
    allow_paths: AllowPaths = []


class ReadFile(FileNode[ReadFileParams]):
    """Reads a regular file to its end."""

    name = "read-file"
    summary = "Reads a file: its text, or its bytes as base64."
    Params = ReadFileParams
    outputs: ClassVar[Mapping[str, str]] = {
        "content": "the text, exactly as it stands there; base64 with `encoding: binary`",
        "content_is_binary": "whether it is base64",
        "size": "how many bytes the file has",
        "file_path": "the path as it was given",
    }
    in_pieces = frozenset({"file_path"})
    example = """\
- id: letter
  type: read-file
  params: {file_path: "letters/${name}.txt"}
"""

    def act(self, params: ReadFileParams, routes: Mapping[str, Route]) -> Mapping[str, Any]:
        """Read it."""
        with spot_of(routes["file_path"]) as spot:
            data = _read(spot, params.max_bytes)
        return {
            "content": decoded(data, params.encoding),
            "content_is_binary": params.encoding == BINARY,
            "size": len(data),
            "file_path": str(params.file_path),
        }


def _read(spot: Spot, most: int) -> bytes:
    chunks, left = [], most + 1
    with spot.opened(os.O_RDONLY) as file:
        size = os.fstat(file).st_size
        while size <= most and left and (chunk := os.read(file, min(left, _AT_ONCE))):
            chunks.append(chunk)
            left -= len(chunk)
    if size > most or not left:
        raise spot.refusal(f"the file has more than {most:,} bytes; raise `max_bytes` if it is to be read all the same")
    return b"".join(chunks)
