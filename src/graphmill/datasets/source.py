"""Sources of items: files, standard input, datasets and former runs; opened again for each iteration."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from graphmill.core.errors import SourceError, UsageError, message_of
from graphmill.core.json import to_json
from graphmill.core.suggest import suggestion
from graphmill.datasets.files import Files, find_files
from graphmill.datasets.former_run import PREFIX as RUN_PREFIX
from graphmill.datasets.former_run import FormerRun
from graphmill.datasets.hub import PREFIX as HUB_PREFIX
from graphmill.datasets.hub import HubDataset, find_named, read_spec
from graphmill.datasets.row_file import READERS, STANDARD_INPUT, UNREADABLE, NumberedRow, OnBadRow
from graphmill.datasets.selection import FieldFilter, ItemSelection

_FORMAT_HINT = "; if it is CSV, use --source-format csv, or format='csv'"
_MOST_HELD = 10_000  # items that are read once and held, where reading them again would cost
_ROWS_FOR_ONE = 10  # rows that are read for one that the filters take
_MOST_NAMED = 5  # of the rows that were skipped


class RowPart(Protocol):
    """A part of a source that is read by itself, such as one file."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    @property
    def format(self) -> str:
        """The format of a file; empty if it is none."""

    @property
    def unit(self) -> str:
        """What the numbers of its rows count: line or row."""

    def rows(self, on_bad: OnBadRow) -> Generator[NumberedRow, None, None]:
        """Read the rows lazily, each with its number."""

    def count(self) -> int | None:
        """Count the rows; None if that is not possible or takes long."""


class ItemsOrigin(Protocol):
    """Where rows come from."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    @property
    def is_stored(self) -> bool:
        """Whether reading never waits for a writer, and can be repeated."""

    @property
    def is_remote(self) -> bool:
        """Whether its rows come over a network."""

    def parts(self, most: int | None) -> Iterable[RowPart]:
        """Return the parts to read; ``most`` is how many rows will be read, if that is known."""

    def note(self) -> dict[str, Any]:
        """Return what a manifest needs to open it again: a ``path`` that ``source`` takes, or None."""

    def state(self) -> Any:
        """Return what changes whenever the rows may have changed; None if that cannot be told."""

    @property
    def item_of(self) -> Callable[[Any], Any] | None:
        """What makes an item of a row, or raises ValueError if it is a bad one; None if rows are items."""


@dataclass(slots=True)
class Source:
    """The items of an origin, as a selection chooses them; a run iterates it in a thread.

    ``bad_rows`` names the first rows that the last iteration has skipped; ``bad_count`` is how many there were.
    """

    origin: ItemsOrigin
    selection: ItemSelection
    skips_bad_rows: bool = False
    bad_rows: list[str] = field(default_factory=list)
    bad_count: int = 0
    _held: list[Any] | None = None
    _held_state: Any = None  # of the origin, when it was decided what to hold

    def __iter__(self) -> Iterator[Any]:
        if (held := self._hold()) is not None:
            yield from map(deepcopy, held)  # who gets an item may change it
        else:
            with closing(self._selected()) as items:
                yield from items

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.origin.name

    @property
    def is_stored(self) -> bool:
        """Whether reading never waits for a writer, and can be repeated."""
        return self.origin.is_stored

    def note(self) -> dict[str, Any]:
        """Return the keywords with which ``source`` opens it again; without a path if it is standard input.

        Asks the hub for the revision, if need be.
        """
        note = {**self.origin.note(), **self.selection.to_json()}
        if self.skips_bad_rows:
            note["skip_bad_rows"] = True
        return note

    def prepare(self) -> None:
        """Do now what takes long: ask the hub for the revision, and choose the items if they are few. Blocks."""
        self._hold()

    def count(self) -> int | None:
        """Count the items; None if that is not possible or takes long."""
        if (held := self._hold()) is not None:
            return len(held)
        if not self.selection.is_by_place or not self.origin.is_stored:
            return None
        rows = self._count_rows()
        if rows is None:
            return None
        left = max(0, rows - self.selection.offset)
        return left if self.selection.limit is None else min(left, self.selection.limit)

    def _count_rows(self) -> int | None:
        total = 0
        for part in self.origin.parts(self._most_rows):
            try:
                counted = part.count()
            except UNREADABLE:  # reading will say where
                return None
            if counted is None:
                return None
            total += counted
        return total

    def _hold(self) -> list[Any] | None:
        """Read the items and hold them, if they are few and reading them again means a download or a search."""
        if self.selection.is_by_place and not self.origin.is_remote:
            return None
        state = self.origin.state()
        if state is None or state == self._held_state:
            return self._held
        most = self.selection.most
        if most is None:
            most = self._count_rows()
        self._held = None
        if most is not None and most <= _MOST_HELD:
            with closing(self._selected()) as items:
                self._held = list(items)
        self._held_state = state
        return self._held

    def _selected(self) -> Generator[Any, None, None]:
        with closing(self._items()) as items:
            try:
                yield from self.selection.apply(items)
            except UsageError as error:  # such as a filter by a field that no row has
                raise SourceError(f"{self.name}: {error}", position=0) from error

    def _items(self) -> Generator[Any, None, None]:
        self.bad_rows, self.bad_count = [], 0
        position, item_of = 0, self.origin.item_of
        for part in self.origin.parts(self._most_rows):
            with closing(part.rows(partial(self._on_bad, part))) as rows:
                while True:
                    try:
                        number, row = next(rows)
                    except StopIteration:
                        break
                    except SourceError as error:  # of the hub
                        error.position = position
                        raise
                    except UNREADABLE as error:
                        raise self._error(part, error, position) from error
                    try:
                        item = row if item_of is None else item_of(row)
                        if self.selection.columns:
                            item = self.selection.named(item)
                    except ValueError as error:
                        bad = ValueError(f"{part.unit} {number}: {message_of(error)}")
                        if not self.skips_bad_rows:
                            raise self._error(part, bad, position) from error
                        self._on_bad(part, bad)
                        continue
                    yield item
                    position += 1

    @property
    def _most_rows(self) -> int | None:
        """How many rows will be read, if not all; a guess if there are filters."""
        chosen = self.selection
        if chosen.limit is None or chosen.is_drawn:
            return None
        return (chosen.offset + chosen.limit) * (_ROWS_FOR_ONE if chosen.filters else 1)

    def _on_bad(self, part: RowPart, error: ValueError) -> None:
        if not self.skips_bad_rows:
            raise error
        self.bad_count += 1
        if len(self.bad_rows) < _MOST_NAMED:
            self.bad_rows.append(f"{part.name}: {error}")

    def _error(self, part: RowPart, error: BaseException, position: int) -> SourceError:
        text = f"{part.name}: {message_of(error)} (good items before it: {position:,})"
        if part.name == STANDARD_INPUT and part.format == "jsonl" and not position:
            text += _FORMAT_HINT
        return SourceError(text, position=position)


def source(  # noqa: PLR0913  one parameter per choice
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002
    columns: Mapping[str, str] | None = None,
    filters: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
    shuffle: int | None = None,
    sample: int | None = None,
    stratify: str | None = None,
    offset: int = 0,
    limit: int | None = None,
    skip_bad_rows: bool = False,
    journal: str | Path | None = None,
    files: Iterable[str] = (),
) -> Source:
    """Read items from a file, a dataset or a former run.

    ``path`` is a .jsonl, .json, .yaml, .csv, .tsv or .parquet file, also .gz; a pattern such as ``data/*.jsonl``; ``-``
    for standard input, JSON Lines unless ``format`` says otherwise; a dataset such as ``math500`` or ``gsm8k:train``
    (``graphmill datasets`` lists them); ``hf:org/name@revision?config=…&split=…``; or ``run:ID``, the items of a run
    recorded in ``journal``, each with its ``result``. ``format`` is for a file name that does not say.

    In this order: ``columns`` gives fields new names (new name to column), ``filters`` keeps rows with these values,
    ``shuffle`` orders by a seed, ``sample`` draws so many rows, with ``stratify`` from each value of a field its share,
    the first ``offset`` are skipped, and at most ``limit`` are read. With ``skip_bad_rows`` a row that cannot be read
    is left out, and named in ``bad_rows``. ``files`` are those of a dataset, if they are known already.
    """
    chosen = ItemSelection(
        columns=dict(columns or {}),
        filters=_filters(filters),
        shuffle=shuffle,
        sample=sample,
        stratify=stratify,
        offset=offset,
        limit=limit,
    )
    return Source(_origin(path, format, journal, tuple(files)), chosen, skip_bad_rows)


def noted_source(note: Any) -> Source | None:
    """Open the source that a manifest recorded; None if that is not possible."""
    if not isinstance(note, Mapping) or not note.get("path"):
        return None
    return source(**note)


CHOICES = ("columns", "filters", "shuffle", "sample", "stratify", "offset", "limit", "skip_bad_rows")


def noted_choices(note: Any) -> dict[str, Any]:
    """Return the selection that a manifest recorded, as keywords for another source."""
    return {name: note[name] for name in CHOICES if isinstance(note, Mapping) and name in note}


def _origin(
    path: str | Path,
    format: str | None,  # noqa: A002
    journal: str | Path | None,
    files: tuple[str, ...],
) -> ItemsOrigin:
    name = str(path)
    if format is not None and format not in READERS:
        raise UsageError(f"no source format {format!r}{suggestion(format, READERS)}; formats are {', '.join(READERS)}")
    if name == "-":
        return Files(pattern=name, format=format, place=None)
    if isinstance(path, Path) or format is not None:
        return find_files(name, format)
    if name.startswith(RUN_PREFIX):
        return FormerRun.find(name.removeprefix(RUN_PREFIX), journal)
    if name.startswith(HUB_PREFIX):
        return HubDataset(place=replace(read_spec(name), files=files))
    if (dataset := find_named(name, files)) is not None:
        return dataset
    return find_files(name, format)


def _filters(filters: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> tuple[FieldFilter, ...]:
    pairs = filters.items() if isinstance(filters, Mapping) else filters
    return tuple(FieldFilter(name, _filter_text(value)) for name, value in pairs)


def _filter_text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value)
