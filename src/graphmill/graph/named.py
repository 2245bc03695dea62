"""Imports ``module:name`` from installed packages, the current folder, or beside a workflow."""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path
from typing import Any

from graphmill.core.errors import describe_error, message_of
from graphmill.core.suggest import suggestion


def find_named(name: object, root: Path | None = None, *, what: str = "graph") -> Any:
    """Import ``module:name``, also from the folder ``root``, which stays on the import path; else ValueError."""
    module_name, colon, path = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not (module_name and colon and path) or not re.fullmatch(r"[^\W\d]\w*(?:\.\w+)*", module_name):
        raise ValueError(f"{what} must be module:name, got {name!r}")
    found: Any = _import(module_name, root)
    for part in path.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{module_name} has no {part!r}{suggestion(part, dir(found))}")
        found = getattr(found, part)
    return found


def _import(module_name: str, root: Path | None) -> Any:
    here = os.getcwd()  # noqa: PTH109  sys.path holds text
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does: a workflow's functions are in the same project
    if root is not None and str(root) not in sys.path:
        sys.path.append(str(root))  # last, so that files beside a workflow hide nothing else
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        places = [here, "the installed packages"]
        if root is not None and str(root) != here:
            places.insert(1, f"the workflow's folder {root}")
        where = f"searched {', '.join(places[:-1])} and {places[-1]}"
        raise ValueError(f"cannot import {module_name!r}: {message_of(error)}; {where}") from error
    except (Exception, SystemExit) as error:  # a script without a __main__ guard may exit while it is imported
        raise ValueError(f"importing {module_name!r} raised {describe_error(error)}") from error
    _require_no_other(module, root, Path(here))
    return module


def _require_no_other(module: Any, root: Path | None, here: Path) -> None:
    """Refuse a module that only has the name of the one beside the workflow or in the current folder."""
    file, name = getattr(module, "__file__", None), module.__name__
    beside = None if root is None or root == here else _file_in(root, name)
    if file is not None and beside is not None and Path(file).resolve() not in (beside, _file_in(here, name)):
        raise ValueError(f"{name} is {file}, not {beside} beside the workflow; rename that file")


def _file_in(folder: Path, module_name: str) -> Path | None:
    path = folder.joinpath(*module_name.split("."))
    return next((each.resolve() for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)
