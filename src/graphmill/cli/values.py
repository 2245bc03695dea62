"""How the values of options are read and checked: journals, items, files, inputs, answers, policies."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from graphmill.core.errors import UnknownRunError, UsageError
from graphmill.core.json import from_json
from graphmill.core.suggest import file_suggestion
from graphmill.core.yaml import from_yaml
from graphmill.datasets.sink import partial_path
from graphmill.engine.policy import Policy, Retry
from graphmill.journal.item_name import find_item, meant_item
from graphmill.journal.manifest import policy_from
from graphmill.journal.records import RunRecord
from graphmill.journal.store import Archive, Store, fixed, open_store

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph

WRITTEN = "written"  # the option in manifests that lists files to which a resume or a retry wrote results

# -- the journal, its items, and files


@contextmanager
def open_existing(journal: str | Path | None) -> Iterator[Store]:
    """Open a store, and close it after use. Raises UnknownRunError if there is none: looking does not create one."""
    store = open_store(journal, create=False)
    try:
        yield store
    finally:
        store.close()


def item_ids(archive: Archive, run: RunRecord, names: Iterable[str]) -> list[str]:
    """Return the ids of items that options name, each once."""
    return list(dict.fromkeys(find_item(archive, run, name).id for name in names))


def answers_by_id(archive: Archive, run: RunRecord, answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return answers by the ids of their items; UsageError if two are for one item."""
    found: dict[str, Any] = {}
    for name, answer in answers.items():
        named = meant_item(archive, run, name)
        item = name if named is None else named.id
        if item in found:
            raise UsageError(f"item {item!r:.80} has two answers; {name!r:.80} means it too")
        found[item] = answer
    return found


def parent_option(context: typer.Context, name: str) -> Any:
    """Return an option given before the subcommand, as in `graphmill cache --json prune`."""
    return None if context.parent is None else context.parent.params.get(name)


def journal_place(journal: str | None, run_id: str | None, *, no_journal: bool = False) -> str | Path | None:
    """Return where a run is to be recorded, even if its functions change the working directory; None for nowhere."""
    if journal == "memory:":
        raise UsageError("--journal memory: is lost when the command ends; name a file, or use --no-journal")
    if no_journal and (run_id is not None or journal is not None):
        raise UsageError("--no-journal cannot be combined with --run-id or --journal; leave one out")
    return None if no_journal else fixed(journal)


def require_own_file(
    file: str | None,
    *,
    items: str | Path | None = None,
    workflow: str | Path | None = None,
    journal: str | Path | None = None,
) -> None:
    """Refuse to write results, whole or partial, over one of these."""
    if file is None or file == "-":
        return
    results = _real(file)
    for what, path in (("the items", items), ("the workflow", workflow), ("the journal", journal)):
        if path is None or path == "-":
            continue
        real = _real(path)
        if real in (results, partial_path(results)) or (what == "the items" and results.match(str(real))):  # a pattern
            raise UsageError(f"writing {file!r} would overwrite {what}; name another output file")


def require_own_file_of(run: RunRecord, file: str | None) -> None:
    """Refuse to write results over the items of a run, or over its workflow."""
    require_own_file(file, items=run.source.get("path"), workflow=run.graph.get("path"))


def require_replaceable(file: str | None, journal: str | Path | Store | None, *, force: bool) -> None:
    """Refuse to replace a file that no run of this journal wrote; None is no journal."""
    if file is None or file == "-" or force or not _real(file).is_file() or not _real(file).stat().st_size:
        return
    if journal is not None and _real(file) in _written_files(journal):
        return
    raise UsageError(
        f"{file!r} exists, and no run of this journal wrote it; name another file, or use --force to replace it"
    )


def _written_files(journal: str | Path | Store) -> set[Path]:
    try:
        with nullcontext(journal) if not isinstance(journal, str | Path) else open_existing(journal) as store:
            options = [run.options for run in store.archive.runs()]
    except UnknownRunError:
        return set()
    names = [name for each in options for name in (each.get("output"), *each.get(WRITTEN, ()))]
    return {_real(name) for name in names if isinstance(name, str)}


def note_of_output(run: RunRecord, file: str | None) -> dict[str, Any]:
    """Return what the manifest of a resumed run records of another output file."""
    if file is None or file == "-":
        return {}
    before = run.options.get(WRITTEN, [])
    return {WRITTEN: list(dict.fromkeys([*before, str(Path(file).absolute())]))}


def _real(path: str | Path) -> Path:
    """Follow links; unlike ``Path.resolve`` also where they lead in a circle."""
    return Path(os.path.realpath(path))


# -- values


def split_pair(text: str, what: str, *, form: str = "NAME=VALUE") -> tuple[str, str]:
    """Split what is given as NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{what} must be {form}, got {text!r:.80}")
    return name, value


def read_names(text: str | None) -> list[str] | None:
    """Return the names that are separated by commas; None if there are none."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"--columns must be names separated by commas, such as id,status,label, got {text!r:.80}")
    return names


_NEXT_PAIR = re.compile(r",(?=[^,=]+=)")


def read_columns(texts: Iterable[str]) -> dict[str, str]:
    """Return the columns to rename, by their new names; a comma separates pairs, and elsewhere is part of a name."""
    pairs = (pair for text in texts for pair in _NEXT_PAIR.split(text))
    return dict(split_pair(pair, "a column", form="NAME=COLUMN") for pair in pairs)


def read_inputs(graph: Graph, texts: Iterable[str], file: str | None) -> dict[str, Any]:
    """Return the inputs by name. A value is read as JSON if it is JSON, unless the input is declared as a string."""
    inputs = read_mapping(file, option="--inputs", holds="input names and values")
    return {**inputs, **dict(_read_input(graph, text) for text in texts)}


def _read_input(graph: Graph, text: str) -> tuple[str, Any]:
    name, value = split_pair(text, "an input")
    data = _json_or_text(value)
    is_declared_string = name in graph.inputs and graph.inputs[name].type == "string"
    if is_declared_string and not isinstance(data, str):
        return name, value
    return name, data


def read_answers(texts: Iterable[str], file: str | None) -> dict[str, Any]:
    """Return people's answers by item."""
    answers: dict[str, Any] = {}
    for text in texts:
        item, value = split_pair(text, "an answer", form="ITEM=VALUE")
        if item in answers:
            raise UsageError(
                f"item {item!r:.80} has two answers; if it asks several questions, give one JSON object of "
                "answers by step path"
            )
        answers[item] = _json_or_text(value)
    return {**read_mapping(file, option="--answers", holds="item ids and answers"), **answers}


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


_READERS = {".json": lambda text: from_json(text, unique_keys=True), ".yaml": from_yaml, ".yml": from_yaml}


def read_mapping(file: str | None, *, option: str, holds: str) -> dict[str, Any]:
    """Read the mapping in a .json or .yaml file; empty if there is no file."""
    if file is None:
        return {}
    path = Path(file)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise UsageError(f"{option} must be a .json or .yaml file, got {str(path)!r}")
    text = _read_bytes(path)
    try:
        found = reader(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: {error}") from error
    if not isinstance(found, Mapping):
        kind = "nothing" if found is None else type(found).__name__
        raise UsageError(f"{path} must hold a mapping ({holds}), got {kind}")
    return dict(found)


def read_text(path: Path) -> str:
    """Read a text file, without the line end at its end."""
    try:
        return _read_bytes(path).decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise UsageError(f"{path} must be UTF-8 text") from None


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"no file {str(path)!r}{file_suggestion(path)}") from None
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {error.strerror}") from error


_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhdw])")


def age_s(text: str) -> float:
    """Read an age such as 90m or 30d, in seconds."""
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--older must be a number and a unit, such as 90m, 12h, 30d or 2w, got {text!r:.40}")
    return float(found[1]) * _UNITS_S[found[2]]


# -- the policy

_OPTION_OF = {
    "concurrency": "--concurrency",
    "timeout_s": "--timeout",
    "max_failures": "--max-failures",
    "budget_usd": "--budget",
}


def policy_of(
    *,
    concurrency: int | None,
    retries: int,
    timeout: float | None,
    adaptive: bool | None = None,
    max_failures: str | None = None,
    budget: float | None = None,
) -> Policy:
    """Make the policy that options describe. Errors name the option."""
    tolerated = _read_tolerance(max_failures)
    with _options_named(max_failures):
        return Policy(
            concurrency=concurrency,
            adaptive=adaptive,
            retry=Retry(attempts=retries + 1),
            timeout_s=timeout,
            max_failures=tolerated,
            budget_usd=budget,
        )


def concurrency_text(graph: Graph, policy: Policy) -> str:
    """Say how much may run at once, and whether the limits below that adapt."""
    is_adaptive = any(graph.model_nodes()) if policy.adaptive is None else policy.adaptive
    return f"concurrency {policy.slots}{' (adaptive)' if is_adaptive else ''}"


def policy_changed(
    run: RunRecord, *, timeout: float | None, adaptive: bool | None, budget: float | None = None
) -> Policy | None:
    """Return the policy that a run was started with, changed; None if nothing changes."""
    given: dict[str, Any] = {"timeout_s": timeout, "adaptive": adaptive, "budget_usd": budget}
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        return None
    with _options_named():
        return replace(policy_from(run.policy), **changes)


@contextmanager
def _options_named(max_failures: str | None = None) -> Iterator[None]:
    """Replace the name of a policy field, with which its errors begin, by the option."""
    try:
        yield
    except UsageError as error:
        name, space, rest = str(error).partition(" ")
        if name == "max_failures":
            raise _tolerance_error(max_failures) from error
        raise UsageError(_OPTION_OF.get(name, name) + space + rest) from error


def _read_tolerance(text: str | None) -> int | float | None:
    if text is None:
        return None
    try:
        if text.endswith("%"):
            return float(text[:-1]) / 100
        return int(text)
    except ValueError:
        raise _tolerance_error(text) from None


def _tolerance_error(text: str | None) -> UsageError:
    return UsageError(f"--max-failures must be a number such as 10, or a share from 0% to 100%, got {text!r}")
