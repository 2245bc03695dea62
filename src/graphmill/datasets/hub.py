"""Datasets on the Hugging Face hub, read with ``huggingface_hub`` (extra ``hub``): cached or streamed."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from yaml import YAMLError

from graphmill.core.errors import SourceError, UsageError, message_of
from graphmill.core.suggest import suggestion
from graphmill.datasets.named import DATASETS, NamedDataset
from graphmill.datasets.row_file import RowFile, format_of, local_file

PREFIX = "hf:"
_FORM = "hf:org/name@revision?config=…&split=…"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LEAST_BLOCK, _MOST_BLOCK = 2**16, 5 * 2**20
_ROW_BYTES = 2**10  # assumed size of a row, from which the block size of a stream is computed
# What other tools put beside the rows.
_NO_ROWS = ("dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json", "config.json")
_USUAL_SPLITS = ("test", "validation", "train")
_SPLIT_WORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HubPlace:
    """Which rows of which dataset. ``files`` is empty until they are looked up at a commit, the ``revision``."""

    repository: str
    revision: str = ""
    configs: tuple[str, ...] = ("",)
    split: str = ""
    files: tuple[str, ...] = ()

    @property
    def is_pinned(self) -> bool:
        """Whether its files are known and cannot change."""
        return bool(self.files) and _COMMIT.fullmatch(self.revision) is not None

    @property
    def spec(self) -> str:
        """The text by which it is opened again."""
        wanted = [*(("config", name) for name in self.configs), ("split", self.split)]
        query = urlencode([(name, value) for name, value in wanted if value])
        return f"{PREFIX}{self.repository}{'@' * bool(self.revision)}{self.revision}{'?' * bool(query)}{query}"


def read_spec(spec: str) -> HubPlace:
    """Read ``hf:org/name@revision?config=…&split=…``."""
    path, _, query = spec.removeprefix(PREFIX).partition("?")
    repository, _, revision = path.partition("@")
    options = parse_qsl(query, keep_blank_values=True)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise UsageError(f"a dataset of the hub must be given as {_FORM}, got {spec!r:.80}")
    for name, _value in options:
        if name not in ("config", "split"):
            raise UsageError(f"{spec!r:.80} has an unknown option {name!r}; options are config and split")
    configs = tuple(value for name, value in options if name == "config") or ("",)
    return HubPlace(repository=repository, revision=revision, configs=configs, split=dict(options).get("split", ""))


def look_up(place: HubPlace) -> HubPlace:
    """Resolve the revision to a commit, and find the files of config and split; asks the hub unless both are known."""
    if place.is_pinned:
        return place
    hub = _hub()
    with _hub_errors(place):
        info = hub.HfApi(library_name="graphmill").dataset_info(place.repository, revision=place.revision or None)
        found = replace(place, revision=info.sha)
        names = [each.rfilename for each in info.siblings or ()]
        card: dict[str, Any] = {}
        if "README.md" in names:
            card = _card(hub, found)
    configs = card.get("configs")
    files: list[str] = []
    for config in place.configs:
        splits = _splits(place, config, names, configs if isinstance(configs, list) else [])
        split = _wanted_split(place, config, splits)
        files += splits[split]
        found = replace(found, split=split)
    return replace(found, files=tuple(files))


def downloaded_files(place: HubPlace) -> Iterator[RowFile]:
    """Yield the files from the cache that all tools of the hub share; each is downloaded first if it is not there."""
    hub = _hub()
    for file in place.files:
        with _hub_errors(place):
            path = Path(_downloaded(hub, place, file))
        yield local_file(path, _format(file), name=f"{place.repository}/{file}")


def streamed_files(place: HubPlace, rows: int) -> Iterator[RowFile]:
    """Yield the files, fetched block by block for about this number of rows; cached ones from disk."""
    hub = _hub()
    block = max(_LEAST_BLOCK, min(rows * _ROW_BYTES, _MOST_BLOCK))
    for file in place.files:
        cached = hub.try_to_load_from_cache(place.repository, file, revision=place.revision, repo_type="dataset")
        if isinstance(cached, str):
            yield local_file(Path(cached), _format(file), name=f"{place.repository}/{file}")
        else:
            yield RowFile(
                name=f"{place.repository}/{file}",
                format=_format(file),
                open_stream=partial(_opened_stream, place, file, block),
            )


@contextmanager
def _opened_stream(place: HubPlace, file: str, block: int) -> Iterator[io.BufferedReader]:
    system = _hub().HfFileSystem(skip_instance_cache=True)
    with _hub_errors(place):
        remote = system.open(f"datasets/{place.repository}@{place.revision}/{file}", cache_type="none")
        with io.BufferedReader(remote, buffer_size=block) as stream:
            yield stream


def _card(hub: Any, place: HubPlace) -> dict[str, Any]:
    """Return the data at the top of the dataset's card."""
    path = _downloaded(hub, place, "README.md")
    try:
        return hub.metadata_load(path) or {}
    except (ValueError, YAMLError) as error:
        raise SourceError(f"the card of dataset {place.repository} cannot be read: {error}", position=0) from error


def _downloaded(hub: Any, place: HubPlace, file: str) -> str:
    path: str = hub.hf_hub_download(
        place.repository, file, repo_type="dataset", revision=place.revision, library_name="graphmill"
    )
    return path


def _format(file: str) -> str:
    return format_of(file) or ""


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

    def state(self) -> Any:
        """Return the place: a commit never changes."""
        self.place = look_up(self.place)
        return self.place

    def pin(self, other: object) -> None:
        """Read the same commit as another source of this dataset, unless a revision was asked for."""
        if not isinstance(other, HubDataset) or self.place.revision:
            return
        split = self.place.split or other.place.split
        if replace(other.place, revision="", files=()) == replace(self.place, split=split):
            self.place = other.place

    def item_of(self, row: Any) -> Any:
        """Return the row; of a named dataset the problem that it holds."""
        if self.dataset is None:
            return row
        return self.dataset.problem_of(row)


def find_named(name: str, files: tuple[str, ...]) -> HubDataset | None:
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


# -- configs and splits


def _splits(place: HubPlace, config: str, names: Sequence[str], configs: Sequence[Any]) -> dict[str, list[str]]:
    """Return the files of a config by split, as the card of the dataset says or, without a card, by their names."""
    readable = sorted(name for name in names if format_of(name) and not name.startswith("."))
    declared = [each for each in configs if isinstance(each, Mapping) and each.get("data_files")]
    if declared:
        splits = _declared_splits(_wanted_config(place, config, declared), readable)
    else:
        named = re.compile(rf"(\A|/){re.escape(config)}[/._-]")  # a folder, or the beginning of a file's name
        splits = _guessed_splits([name for name in readable if not config or named.search(name)])
    splits = {split: files for split, files in splits.items() if files}
    if not splits:
        raise UsageError(
            f"dataset {place.repository} has no Parquet, JSON, CSV or YAML "
            f"files{f' of config {config!r}' * bool(config)}; if the hub has converted it, use "
            f"hf:{place.repository}@refs/convert/parquet"
        )
    return splits


def _wanted_config(place: HubPlace, config: str, declared: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    by_name = {str(each.get("config_name", "default")): each for each in declared}
    if config in by_name:
        return by_name[config]
    defaults = [each for name, each in by_name.items() if each.get("default") or name == "default"]
    if not config and (defaults or len(by_name) == 1):
        return next(iter([*defaults, *by_name.values()]))
    if config:
        problem = f"has no config {config!r}{suggestion(config, by_name)}"
    else:
        problem = "has several configs; choose one with ?config=NAME"
    raise UsageError(f"dataset {place.repository} {problem}; configs are {', '.join(by_name)}")


def _declared_splits(config: Mapping[str, Any], names: Sequence[str]) -> dict[str, list[str]]:
    files = config["data_files"]
    folder = str(config.get("data_dir", "")).strip("/")
    if isinstance(files, Mapping):
        files = [{"split": split, "path": path} for split, path in files.items()]
    if isinstance(files, str):
        files = [files]
    splits: dict[str, list[str]] = {}
    for each in files:
        entry = each if isinstance(each, Mapping) else {"split": "train", "path": each}
        paths = [entry["path"]] if isinstance(entry["path"], str) else entry["path"]
        patterns = [f"{folder}/{path}".lstrip("/") for path in paths]
        found = [name for pattern in patterns for name in names if _matches(name, pattern)]
        splits.setdefault(str(entry.get("split", "train")), []).extend(found)
    return splits


def _matches(name: str, pattern: str) -> bool:
    pattern = pattern.removeprefix("./")
    return fnmatchcase(name, pattern) or fnmatchcase(name, pattern.replace("**/", ""))


def _guessed_splits(names: Sequence[str]) -> dict[str, list[str]]:
    """Take the files of the most frequent format, since others hold the same rows or none."""
    rows = [name for name in names if name.rpartition("/")[2] not in _NO_ROWS]
    formats = Counter(map(_format, rows))
    usual = max(formats, key=lambda name: (formats[name], name == "parquet"), default="")
    splits: dict[str, list[str]] = {}
    for name in (name for name in rows if _format(name) == usual):
        words = re.split(r"[^a-z]+", name.lower())
        split = next((split for split, known in _SPLIT_WORDS.items() if set(known) & set(words)), "")
        splits.setdefault(split, []).append(name)
    if set(splits) == {""}:  # no file says a split, so they are all of one
        return {"train": splits[""]}
    splits.pop("", None)
    return splits


def _wanted_split(place: HubPlace, config: str, splits: Mapping[str, Sequence[str]]) -> str:
    split = place.split
    if split in splits:
        return split
    of_config = f" of config {config!r}" * bool(config)
    if split:
        raise UsageError(
            f"dataset {place.repository} has no split {split!r}{of_config}{suggestion(split, splits)}; "
            f"splits are {', '.join(splits)}"
        )
    usual = [name for name in _USUAL_SPLITS if name in splits]
    return next(iter([*usual, *splits]))


# -- errors


def _hub() -> Any:
    try:
        return import_module("huggingface_hub")
    except ImportError:
        raise UsageError(
            "datasets of the Hugging Face hub need huggingface_hub and pyarrow: pip install 'graphmill[hub]'"
        ) from None


@contextmanager
def _hub_errors(place: HubPlace) -> Iterator[None]:
    """Turn what the hub's client raises into one error with the remedy."""
    errors = import_module("huggingface_hub.errors")
    address = f"{import_module('huggingface_hub.constants').ENDPOINT}/datasets/{place.repository}"
    try:
        yield
    except errors.GatedRepoError as error:
        raise UsageError(
            f"dataset {place.repository} is gated: accept its terms at {address}, then log in with `hf auth login` "
            "or set HF_TOKEN"
        ) from error
    except errors.DisabledRepoError as error:
        raise UsageError(f"dataset {place.repository} was disabled by the hub; see {address}") from error
    except errors.RevisionNotFoundError as error:
        raise UsageError(f"dataset {place.repository} has no revision {place.revision!r}; see {address}") from error
    except errors.RepositoryNotFoundError as error:
        raise UsageError(
            f"the hub has no dataset {place.repository}, or it is private: check the name at {address}; for a private "
            "one log in with `hf auth login` or set HF_TOKEN. Another copy can be read with hf:org/name and --map"
        ) from error
    except (errors.HTTPError, errors.EntryNotFoundError, OSError) as error:
        raise SourceError(
            f"cannot read dataset {place.repository} from {address}: {message_of(error)}; check the network, set "
            "HF_ENDPOINT to a mirror, or use a local file",
            position=0,
        ) from error
