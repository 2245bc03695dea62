"""Sources of items: files, standard input, datasets by name or on the hub, and former runs; opened again for each iteration."""

from __future__ import annotations

import glob
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, Protocol

from graphmill.core.errors import SourceError, UsageError, message_of
from graphmill.core.json import to_json
from graphmill.core.suggest import file_suggestion, suggestion
from graphmill.datasets.former_run import PREFIX as RUN_PREFIX
from graphmill.datasets.former_run import FormerRun
from graphmill.datasets.hub import PREFIX as HUB_PREFIX
from graphmill.datasets.hub import HubPlace, downloaded_files, look_up, read_spec, streamed_files
from graphmill.datasets.named import DATASETS, NamedDataset
from graphmill.datasets.row_file import READERS, UNREADABLE, NumberedRow, OnBadRow, RowFile, format_of, local_file
from graphmill.datasets.row_file import standard_input as stdin_file
from graphmill.datasets.selection import FieldFilter, ItemSelection

_FORMAT_HINT = "; if it is CSV, use --source-format csv, or format='csv'"
_GLOB = frozenset("*?[")
_MOST_HELD = 10_000  # items that are read once and held, where reading them again would cost
_MOST_NAMED = 5  # of the rows that were skipped


class RowPart(Protocol):
    """A part of a source that is read by itself, such as one file."""

    @property
    def name(self) -> str:
        """Its name in messages."""

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

    def item_of(self, row: Any) -> Any:
        """Make an item of a row; ValueError if it is a bad one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """One file, several that a pattern names, or standard input (``pattern`` is ``-``)."""

    pattern: str
    format: str | None
    place: str | None
    is_remote: bool = False

    @property
    def name(self) -> str:
        """Its name in messages."""
        return "standard input" if self.place is None else self.pattern

    @property
    def is_stored(self) -> bool:
        """Whether all of it is in regular files."""
        return self.place is not None and all(path.is_file() for path in self._paths())

    def parts(self, most: int | None) -> Iterable[RowFile]:  # noqa: ARG002  files are read lazily anyway
        """Return the files, in the order of their names."""
        if self.place is None:
            return [stdin_file(self.format or "jsonl")]
        paths = self._paths()
        if not paths:
            raise SourceError(f"no file matches {self.pattern!r}", position=0)
        name = self.pattern if len(paths) == 1 and not _is_pattern(self.place) else ""
        return [local_file(path, self._format(path), name=name) for path in paths]

    def note(self) -> dict[str, Any]:
        """Return the absolute path or pattern, which stays valid when the working directory changes."""
        return {"path": self.place, "format": self.format}

    def item_of(self, row: Any) -> Any:
        """Return the row: what a file holds are items."""
        return row

    def _paths(self) -> list[Path]:
        place = self.place or ""
        if not _is_pattern(place):
            return [Path(place)]
        found = sorted(glob.glob(place, recursive=True))  # noqa: PTH207  pathlib takes no absolute patterns
        return [path for path in map(Path, found) if not path.is_dir()]

    def _format(self, path: Path) -> str:
        return self.format or _require_format(path)


@dataclass(slots=True, kw_only=True)
class HubDataset:
    """A dataset of the Hugging Face hub. Its revision is resolved when it is first needed, and stays."""

    place: HubPlace
    dataset: NamedDataset | None = None
    is_remote: bool = True
    is_stored: bool = True

    @property
    def name(self) -> str:
        """Its name in messages."""
        if self.dataset is None:
            return self.place.repository
        return self.dataset.name

    def parts(self, most: int | None) -> Iterable[RowFile]:
        """Return its files: streamed if only some rows are wanted, else downloaded and cached."""
        self.place = look_up(self.place)
        return downloaded_files(self.place) if most is None else streamed_files(self.place, most)

    def note(self) -> dict[str, Any]:
        """Return the text that opens it at the same commit, and the files, so that a resume asks the hub nothing."""
        self.place = look_up(self.place)
        path = self.place.spec
        if self.dataset is not None:
            split = "" if self.place.split == self.dataset.split else f":{self.place.split}"
            path = f"{self.dataset.name}{split}@{self.place.revision}"
        return {"path": path, "files": list(self.place.files)}

    def item_of(self, row: Any) -> Any:
        """Return the row; of a named dataset the problem that it holds."""
        if self.dataset is None:
            return row
        return self.dataset.problem_of(row)


@dataclass(slots=True)
class Source:
    """The items of an origin, as a selection chooses them; a run iterates it in a thread.

    ``bad_rows`` names rows that the last iteration has skipped, at most a few; ``bad_count`` is how many there were.
    """

    origin: ItemsOrigin
    selection: ItemSelection
    skips_bad_rows: bool = False
    bad_rows: list[str] = field(default_factory=list)
    bad_count: int = 0
    _held: list[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        if self._is_held:
            yield from self._hold()
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
        """Return what is needed to open it again; standard input cannot be. Asks the hub for the revision, if need be."""
        note = {**self.origin.note(), **self.selection.to_json()}
        if self.skips_bad_rows:
            note["skip_bad_rows"] = True
        return note

    def prepare(self) -> None:
        """Ask the hub now for what later steps need: the revision, and the items if they are few. Blocks."""
        if self.origin.is_remote:
            self.origin.note()
            if self._is_held:
                self._hold()

    def count(self) -> int | None:
        """Count the items; None if that is not possible or takes long."""
        if self._is_held:
            return len(self._hold())
        if not self.selection.is_by_place or not self.origin.is_stored:
            return None
        total = 0
        for part in self.origin.parts(self._most_rows):
            counted = part.count()
            if counted is None:
                return None
            total += counted
        left = max(0, total - self.selection.offset)
        return left if self.selection.limit is None else min(left, self.selection.limit)

    @property
    def _is_held(self) -> bool:
        """Whether its items are held: few, and reading them again means a download or a search."""
        most = self.selection.most
        is_costly = self.origin.is_remote or not self.selection.is_by_place
        return is_costly and self.origin.is_stored and most is not None and most <= _MOST_HELD

    def _hold(self) -> list[Any]:
        if self._held is None:
            with closing(self._selected()) as items:
                self._held = list(items)
        return self._held

    def _selected(self) -> Generator[Any, None, None]:
        with closing(self._items()) as items:
            try:
                yield from self.selection.apply(items)
            except UsageError as error:  # such as a filter by a field that no row has
                raise SourceError(f"{self.name}: {error}", position=0) from error

    def _items(self) -> Generator[Any, None, None]:
        self.bad_rows, self.bad_count = [], 0
        position = 0
        for part in self.origin.parts(self._most_rows):
            with closing(part.rows(partial(self._on_bad, part))) as rows:
                while True:
                    try:
                        number, row = next(rows)
                    except StopIteration:
                        break
                    except UNREADABLE as error:
                        raise self._error(part, error, position) from error
                    try:
                        item = self.selection.named(self.origin.item_of(row))
                    except ValueError as error:
                        bad = ValueError(f"{part.unit} {number:,}: {message_of(error)}")
                        if not self.skips_bad_rows:
                            raise self._error(part, bad, position) from error
                        self._on_bad(part, bad)
                        continue
                    yield item
                    position += 1

    @property
    def _most_rows(self) -> int | None:
        """How many rows will about be read, if not all."""
        if self.selection.limit is None or self.selection.is_drawn:
            return None
        return self.selection.offset + self.selection.limit

    def _on_bad(self, part: RowPart, error: ValueError) -> None:
        if not self.skips_bad_rows:
            raise error
        self.bad_count += 1
        if len(self.bad_rows) < _MOST_NAMED:
            self.bad_rows.append(f"{part.name}: {error}")

    def _error(self, part: RowPart, error: BaseException, position: int) -> SourceError:
        text = f"{part.name}: {message_of(error)} (good items before it: {position:,})"
        if self.origin.note().get("path") is None and part.unit == "line" and not position and "JSON" in text:
            text += _FORMAT_HINT
        return SourceError(text, position=position)


def source(  # noqa: PLR0913  one parameter per choice
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002
    columns: Mapping[str, str] | None = None,
    filters: Mapping[str, Any] | Iterable[tuple[str, str]] = (),
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
    the first ``offset`` are skipped, and at most ``limit`` are read. With ``skip_bad_rows`` a row that cannot be read is
    left out, and named in ``bad_rows``. ``files`` are those of a dataset, if they are known already.
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
    return Source(_origin(str(path), format, journal, tuple(files)), chosen, skip_bad_rows)


def noted_source(note: Any) -> Source | None:
    """Open the source that a manifest recorded; None if that is not possible."""
    if not isinstance(note, Mapping) or not note.get("path"):
        return None
    return source(**note)


def _origin(name: str, format: str | None, journal: str | Path | None, files: tuple[str, ...]) -> ItemsOrigin:  # noqa: A002
    if format is not None and format not in READERS:
        raise UsageError(f"no source format {format!r}{suggestion(format, READERS)}; formats are {', '.join(READERS)}")
    if name == "-":
        return Files(pattern=name, format=format, place=None)
    if name.startswith(RUN_PREFIX):
        return FormerRun.find(name.removeprefix(RUN_PREFIX), journal)
    if name.startswith(HUB_PREFIX):
        return HubDataset(place=replace(read_spec(name), files=files))
    if (dataset := _named(name, files)) is not None:
        return dataset
    return _files(name, format)


def _named(name: str, files: tuple[str, ...]) -> HubDataset | None:
    """Return the dataset that is meant by ``name``, ``name:split`` or either with ``@revision``; None if none is."""
    wanted, _, revision = name.partition("@")
    wanted, colon, split = wanted.partition(":")
    dataset = DATASETS.get(wanted)
    if dataset is None:
        return None
    if colon:
        dataset.require_split(split)
    place = HubPlace(
        repository=dataset.repository,
        revision=revision,
        configs=dataset.configs,
        split=split or dataset.split,
        files=files,
    )
    return HubDataset(place=place, dataset=dataset)


def _files(name: str, format: str | None) -> Files:  # noqa: A002
    path = Path(name)
    if _is_pattern(name):
        return Files(pattern=name, format=format, place=str(path.absolute()))
    if format is None:
        _require_format(path)
    _require_readable(path)
    return Files(pattern=name, format=format or format_of(name), place=str(path.absolute()))


def _is_pattern(name: str) -> bool:
    """Return whether a name stands for the files that match it; a file of just this name is meant by itself."""
    return bool(_GLOB & set(name)) and not Path(name).exists()


def _filters(filters: Mapping[str, Any] | Iterable[tuple[str, str]]) -> tuple[FieldFilter, ...]:
    if isinstance(filters, Mapping):
        return tuple(FieldFilter(name, _filter_text(value)) for name, value in filters.items())
    return tuple(FieldFilter(*each) for each in filters)


def _filter_text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value)


def _require_format(path: Path) -> str:
    found = format_of(path.name)
    if found is None:
        raise UsageError(
            f"cannot tell the format of {str(path)!r}; pass format (--source-format), one of {', '.join(READERS)}"
            f"{_dataset_hint(path)}"
        )
    return found


def _dataset_hint(path: Path) -> str:
    """Suggest a dataset, if the name may be meant for one."""
    if path.suffix or path.exists():
        return ""
    return suggestion(str(path), DATASETS) or f"; datasets known by name are {', '.join(DATASETS)}"


def _require_readable(path: Path) -> None:
    try:
        mode = path.stat().st_mode
        if S_ISREG(mode):  # opening a pipe would take its content
            path.open("rb").close()
    except FileNotFoundError:
        raise UsageError(f"no file {str(path)!r}{file_suggestion(path)}") from None
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {error.strerror}") from error
    if S_ISDIR(mode):
        raise UsageError(f"the source {str(path)!r} is a folder; name a file in it")
