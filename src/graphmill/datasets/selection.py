"""Which rows of a source become items: map, filter, shuffle or sample, then offset and limit, in this order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from hashlib import blake2b
from heapq import nsmallest
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from graphmill.core.errors import UsageError
from graphmill.core.json import MISSING, canonical, field_inside
from graphmill.core.suggest import suggestion

_MOST_NAMES = 20
_MOST_KNOWN = 200


def field_of(item: Any, name: str) -> Any:
    """Return a field of an item or of its ``metadata``; MISSING if there is none."""
    found = field_inside(item, name)
    if found is MISSING and isinstance(item, Mapping):
        found = field_inside(item.get("metadata"), name)
    return found


class UnseenFields:
    """Fields that somebody asked for and that no row had so far; one that none has is misspelt."""

    def __init__(self, names: Iterable[str]) -> None:
        self._unseen = set(names)
        self._known: dict[str, None] = {}
        self._has_rows = False

    def note(self, found: Mapping[str, Any], known: Callable[[], Iterable[str]]) -> None:
        """Note the value or MISSING that a row has for each; ``known`` names the fields that it does have."""
        if self._unseen:
            self._has_rows = True
            self._unseen -= {name for name, value in found.items() if value is not MISSING}
            if self._unseen and len(self._known) < _MOST_KNOWN:
                self._known |= dict.fromkeys(known())

    def require_none(self, message: str) -> None:
        """Refuse a field that no row had; the message begins like "no row has a field"."""
        if self._unseen and self._has_rows:
            name = min(self._unseen)
            short = (known.partition(".")[2] for known in self._known)
            similar = suggestion(name, [*self._known, *filter(None, short)])
            known = f"; fields: {', '.join(self._known):.500}" if self._known else "; the rows are not mappings"
            raise UsageError(f"{message} {name!r:.80}{similar}{known}")


class FieldFilter(NamedTuple):
    """A field, and the value that it must have; a list must hold it."""

    field: str
    value: str

    def takes(self, found: Any) -> bool:
        """Return whether this value is the one wanted: as text, or as JSON."""
        if found is MISSING:
            return False
        if isinstance(found, list):
            return any(self.takes(each) for each in found if not isinstance(each, list))
        if isinstance(found, str):
            return found == self.value
        wanted = _json_of(self.value)
        return wanted is not MISSING and isinstance(found, bool) is isinstance(wanted, bool) and bool(found == wanted)


@lru_cache
def _json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSelection:
    """What is done with the rows of a source. All of it is plain data, which a manifest records.

    ``columns`` gives fields new names: new name to column. A row must match every one of ``filters``. ``shuffle`` is a
    seed. ``sample`` rows are drawn with that seed, or 0; with ``stratify`` as many of each value of this field as their
    share of all rows.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    filters: Sequence[FieldFilter] = ()
    shuffle: int | None = None
    sample: int | None = None
    stratify: str | None = None
    offset: int = 0
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.stratify is not None and self.sample is None:
            raise UsageError("stratify (--stratify) needs sample (--sample), the number of rows to draw")

    def to_json(self) -> dict[str, Any]:
        """Return what differs from a selection of everything."""
        everything = ItemSelection()
        found = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if getattr(self, each.name) != getattr(everything, each.name)
        }
        if "filters" in found:
            found["filters"] = [list(each) for each in self.filters]
        return found

    @classmethod
    def from_json(cls, note: Mapping[str, Any]) -> ItemSelection:
        """Return the selection that a manifest recorded."""
        filters = [FieldFilter(*each) for each in note.get("filters", ())]
        return cls(**{**note, "filters": filters})

    @property
    def is_by_place(self) -> bool:
        """Whether it takes rows by their place alone, so that what it takes can be counted without reading."""
        return not self.filters and not self.is_drawn

    @property
    def is_drawn(self) -> bool:
        """Whether it needs all rows before the first item is known."""
        return self.shuffle is not None or self.sample is not None

    @property
    def most(self) -> int | None:
        """The most items that it lets through; None if there is no bound."""
        bounds = [bound for bound in (self.limit, self.sample) if bound is not None]
        return min(bounds, default=None)

    def named(self, row: Any) -> Any:
        """Give a row's columns their new names. ValueError if it has no such column."""
        if not isinstance(row, Mapping):
            raise ValueError(f"the item is {type(row).__name__}, not a mapping, so it has no columns to map")
        found = {name: field_inside(row, column) for name, column in self.columns.items()}
        for name, value in found.items():
            if value is MISSING:
                raise ValueError(f"no column {self.columns[name]!r}{_known_fields(row, self.columns[name])}")
        moved = set(self.columns.values())
        return {**found, **{name: value for name, value in row.items() if name not in moved and name not in found}}

    def apply(self, items: Iterator[Any]) -> Iterator[Any]:
        """Yield the selected items; lazily, unless they are drawn."""
        chosen: Iterable[Any] = self._filtered(items) if self.filters else items
        if self.is_drawn:
            chosen = self._drawn(chosen)
        end = None if self.limit is None else self.offset + self.limit
        return islice(chosen, self.offset, end)

    def _filtered(self, items: Iterator[Any]) -> Generator[Any, None, None]:
        unseen = UnseenFields(each.field for each in self.filters)
        for item in items:
            found = {each.field: field_of(item, each.field) for each in self.filters}
            unseen.note(found, partial(_fields_of, item))
            if all(each.takes(found[each.field]) for each in self.filters):
                yield item
        unseen.require_none("no row has a field")

    def _drawn(self, items: Iterable[Any]) -> Iterable[Any]:
        """Order items by seed and content only, so that new rows do not change the order of the others."""
        seed = str(self.shuffle or 0).encode()
        ranked = ((_rank(seed, item), position, item) for position, item in enumerate(items))
        if self.sample is not None:
            drawn = self._stratified(ranked) if self.stratify else nsmallest(self.sample, ranked, key=_BY_RANK)
        elif self.limit is not None:
            drawn = nsmallest(self.offset + self.limit, ranked, key=_BY_RANK)
        else:
            drawn = list(ranked)
        # A sample without a shuffle stays in the order of the source.
        drawn.sort(key=itemgetter(1) if self.shuffle is None else _BY_RANK)
        return (item for _, _, item in drawn)

    def _stratified(self, ranked: Iterable[_Ranked]) -> list[_Ranked]:
        most = self.sample or 0
        strata: dict[bytes, list[_Ranked]] = {}
        counts: Counter[bytes] = Counter()
        for entry in ranked:
            value = field_of(entry[2], self.stratify or "")
            if value is MISSING:
                raise UsageError(f"a row has no field {self.stratify!r} to stratify by{_known_fields(entry[2], '')}")
            key = canonical(value)
            counts[key] += 1
            stratum = strata.setdefault(key, [])
            stratum.append(entry)
            if len(stratum) > 2 * most:  # bounded: those of a low rank are enough
                stratum[:] = nsmallest(most, stratum, key=_BY_RANK)
        shares = _shares(counts, most)
        return [entry for key, stratum in strata.items() for entry in nsmallest(shares[key], stratum, key=_BY_RANK)]


_Ranked = tuple[bytes, int, Any]
_BY_RANK = itemgetter(0, 1)


def _rank(seed: bytes, item: Any) -> bytes:
    return blake2b(canonical(item), digest_size=16, key=seed[:64]).digest()


def _shares(counts: Mapping[bytes, int], most: int) -> dict[bytes, int]:
    """Divide a sample in proportion to the strata, by largest remainder."""
    total = sum(counts.values())
    if most >= total:
        return dict(counts)
    shares = {key: most * count // total for key, count in counts.items()}
    by_remainder = sorted(counts, key=lambda key: (-(most * counts[key] % total), key))
    for key in by_remainder[: most - sum(shares.values())]:
        shares[key] += 1
    return shares


def _known_fields(row: Any, name: str) -> str:
    """Name the fields of a row, and the one most like this name."""
    if not isinstance(row, Mapping):
        return f"; it is {type(row).__name__}, not a mapping"
    names = _fields_of(row)
    shown = ", ".join(names[:_MOST_NAMES]) + (" …" if len(names) > _MOST_NAMES else "")
    return f"{suggestion(name, names)}; fields: {shown}"


def _fields_of(row: Any) -> list[str]:
    """Return the names that a filter may use."""
    if not isinstance(row, Mapping):
        return []
    inner = row.get("metadata")
    return [str(name) for part in (row, inner) if isinstance(part, Mapping) for name in part]
