"""What all file nodes have in common: paths that are checked as written, and calls that run in a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta

from graphmill.engine.attempts.workers import call
from graphmill.graph.node_params import is_open
from graphmill.graph.node_type import Context, NodeType, ParamError, Site
from graphmill.nodes.files.encoding import require_encoding
from graphmill.nodes.files.route import Route, require_folder, require_name, route_of

P = TypeVar("P", bound=msgspec.Struct)

AllowPaths = Annotated[
    list[str],
    Meta(description="More folders, relative to the workflow's or absolute, to which a template or a link may lead."),
]
CreateFolders = Annotated[bool, Meta(description="Make the folders that are missing.")]
Encoding = Annotated[
    str,
    Meta(
        description="Of the text; line ends are kept as they are. `binary`: the content is base64 of any bytes. `utf-8-sig`: with a mark."
    ),
]


class FileNode(NodeType[P]):
    """A node type whose params in ``in_pieces`` are paths."""

    untemplated: ClassVar[frozenset[str]] = frozenset({"allow_paths", "encoding", "format", "mode"})

    def check(self, params: Mapping[str, Any], site: Site) -> None:
        """Refuse paths and encodings that can not be meant, as far as they are written."""
        del site
        for name in sorted(self.in_pieces & params.keys()):
            _require_path(name, params[name])
        for number, folder in enumerate(params.get("allow_paths", ())):
            _require(("allow_paths", number), require_folder, folder)
        if "encoding" in params:
            _require(("encoding",), partial(require_encoding, appends=params.get("append") is True), params["encoding"])

    async def run(self, params: P, context: Context) -> Mapping[str, Any]:
        """Do it in a thread."""
        return await call(self._act, params, context.root)  # type: ignore[no-any-return]

    def _act(self, params: P, root: Path | None) -> Mapping[str, Any]:
        allowed: list[str] = params.allow_paths  # type: ignore[attr-defined]
        return self.act(
            params, {name: route_of(name, getattr(params, name), root=root, allowed=allowed) for name in self.in_pieces}
        )

    def act(self, params: P, routes: Mapping[str, Route]) -> Mapping[str, Any]:
        """Do what the node does; ``routes`` are the ways of its paths."""
        raise NotImplementedError


def _require_path(name: str, written: Any) -> None:
    if not isinstance(written, str):
        raise ParamError(
            f"{name}: a path is told in outputs and messages, so it can not be a secret; make it an input", at=(name,)
        )
    if not is_open(written):
        _require((name,), require_name, written)


def _require(at: tuple[str | int, ...], require: Callable[[str], None], written: str) -> None:
    try:
        require(written)
    except ValueError as error:
        raise ParamError(f"{at[0]}: {error}", at=at) from error
