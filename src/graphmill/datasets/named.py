"""Problem sets known by name: where each is on the Hugging Face hub, and how its rows become problems."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import Any

from graphmill.core.boxes import last_box
from graphmill.core.errors import UsageError
from graphmill.core.problem import Domain, Problem
from graphmill.core.suggest import suggestion

Row = Mapping[str, Any]
ToProblem = Callable[[Row], Problem]

_MATH_SUBJECTS = (
    "algebra",
    "counting_and_probability",
    "geometry",
    "intermediate_algebra",
    "number_theory",
    "prealgebra",
    "precalculus",
)
_LETTERS = "ABCD"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedDataset:
    """A problem set. ``sizes`` are the numbers of rows by split; the first split is the default."""

    name: str
    about: str
    repository: str
    sizes: Mapping[str, int]
    licence: str
    domain: Domain
    to_problem: ToProblem
    configs: tuple[str, ...] = ("",)
    is_gated: bool = False

    @property
    def split(self) -> str:
        """The split that is read if none is asked for."""
        return next(iter(self.sizes))

    def require_split(self, split: str) -> None:
        """Refuse a split that the set does not have."""
        if split not in self.sizes:
            raise UsageError(
                f"{self.name} has no split {split!r}{suggestion(split, self.sizes)}; splits are {', '.join(self.sizes)}"
            )

    def problem_of(self, row: Any) -> dict[str, Any]:
        """Make an item of a row; ValueError if the row is not one of this set."""
        try:
            return self.to_problem(row).to_json()
        except KeyError as error:
            raise ValueError(f"the row has no field {error}, so it is not one of {self.name}") from error
        except (TypeError, AttributeError) as error:
            raise ValueError(f"the row is not one of {self.name}: {error}") from error


def _math(row: Row) -> Problem:
    return Problem(
        id=_content_id("math", row["problem"], row["solution"]),
        problem=row["problem"],
        ground_truth=box.content if (box := last_box(row["solution"])) else None,
        metadata={"level": _level(row["level"]), "subject": row["type"], "solution": row["solution"]},
        domain="math",
    )


def _math500(row: Row) -> Problem:
    return Problem(
        id=row["unique_id"],
        problem=row["problem"],
        ground_truth=row["answer"],
        metadata={"level": _level(row["level"]), "subject": row["subject"], "solution": row["solution"]},
        domain="math",
    )


def _gsm8k(row: Row) -> Problem:
    solution, _, answer = row["answer"].rpartition("####")
    return Problem(
        id=_content_id("gsm8k", row["question"], row["answer"]),
        problem=row["question"],
        ground_truth=answer.strip().replace(",", ""),
        metadata={"solution": re.sub(r"<<.*?>>", "", solution).strip()},
        domain="math",
    )


def _humaneval(row: Row) -> Problem:
    return Problem(
        id=row["task_id"],
        problem=row["prompt"],
        ground_truth=row["canonical_solution"],
        metadata={name: row[name] for name in ("task_id", "entry_point", "prompt", "test")},
        domain="code",
    )


def _mbpp(row: Row) -> Problem:
    return _mbpp_problem(row, text=row["text"], tests=row["test_list"], setup=row["test_setup_code"])


def _mbpp_plus(row: Row) -> Problem:
    # The first of the original asserts is shown; the extended test, a whole script, is what grades.
    return _mbpp_problem(row, text=row["prompt"], tests=[row["test"]], setup="\n".join(row["test_imports"]))


def _mbpp_problem(row: Row, *, text: str, tests: list[str], setup: str) -> Problem:
    shown = row["test_list"][0].strip()
    return Problem(
        id=f"mbpp/{row['task_id']}",
        problem=f"{text.strip()}\n\nThe solution must pass this test:\n{shown}",
        ground_truth=row["code"],
        metadata={"tests": tests, "setup": setup, "entry_point": _entry_point(row["code"], shown)},
        domain="code",
    )


def _aime(row: Row) -> Problem:
    metadata = {name: row[name] for name in ("solution", "year", "url") if row.get(name)}
    return Problem(
        id=f"aime/{row['id']}",
        problem=row["problem"],
        ground_truth=str(row["answer"]),
        metadata=metadata,
        domain="math",
    )


def _gpqa(row: Row) -> Problem:
    right = row["Correct Answer"].strip()
    choices = [right, *(row[f"Incorrect Answer {number}"].strip() for number in (1, 2, 3))]
    Random(row["Record ID"]).shuffle(choices)  # noqa: S311  the same order in every run
    listed = "\n".join(f"{letter}) {choice}" for letter, choice in zip(_LETTERS, choices, strict=True))
    return Problem(
        id=f"gpqa/{row['Record ID']}",
        problem=f"{row['Question'].strip()}\n\n{listed}",
        ground_truth=_LETTERS[choices.index(right)],
        metadata={
            "choices": choices,
            "subject": row["High-level domain"],
            "subdomain": row["Subdomain"],
            "solution": row["Explanation"],
        },
    )


def _content_id(name: str, problem: str, solution: str) -> str:
    """Make the id of a problem that has none; a few problems occur twice, with different solutions."""
    text = f"{problem}\n{solution}".encode(errors="surrogatepass")
    return f"{name}/{blake2b(text, digest_size=6).hexdigest()}"


def _level(level: Any) -> Any:
    """Return the number of a level such as "Level 5"."""
    number = str(level).removeprefix("Level ").strip()
    return int(number) if number.isdecimal() else level


def _entry_point(code: str, test: str) -> str:
    """Return the function of the reference code that the test calls first, or else the last one."""
    names: list[str] = re.findall(r"^def\s+(\w+)", code, re.MULTILINE)
    called = [found for found in re.findall(r"\b(\w+)\s*\(", test) if found in names]
    return next(iter([*called, *reversed(names)]), "")


_ALL = (
    NamedDataset(
        name="math",
        about="competition mathematics, seven subjects, five levels",
        repository="EleutherAI/hendrycks_math",
        configs=_MATH_SUBJECTS,
        sizes={"test": 5000, "train": 7500},
        licence="MIT",
        domain="math",
        to_problem=_math,
    ),
    NamedDataset(
        name="math500",
        about="500 problems of MATH's test split",
        repository="HuggingFaceH4/MATH-500",
        sizes={"test": 500},
        licence="MIT",
        domain="math",
        to_problem=_math500,
    ),
    NamedDataset(
        name="gsm8k",
        about="school mathematics in words",
        repository="openai/gsm8k",
        configs=("main",),
        sizes={"test": 1319, "train": 7473},
        licence="MIT",
        domain="math",
        to_problem=_gsm8k,
    ),
    NamedDataset(
        name="aime24",
        about="the AIME of 2024",
        repository="HuggingFaceH4/aime_2024",
        sizes={"train": 30},
        licence="not stated",
        domain="math",
        to_problem=_aime,
    ),
    NamedDataset(
        name="aime25",
        about="the AIME of 2025",
        repository="math-ai/aime25",
        sizes={"test": 30},
        licence="Apache-2.0",
        domain="math",
        to_problem=_aime,
    ),
    NamedDataset(
        name="humaneval",
        about="Python functions to complete, with tests",
        repository="openai/openai_humaneval",
        sizes={"test": 164},
        licence="MIT",
        domain="code",
        to_problem=_humaneval,
    ),
    NamedDataset(
        name="humaneval+",
        about="HumanEval with many more tests",
        repository="evalplus/humanevalplus",
        sizes={"test": 164},
        licence="Apache-2.0",
        domain="code",
        to_problem=_humaneval,
    ),
    NamedDataset(
        name="mbpp",
        about="basic Python programs, with tests",
        repository="google-research-datasets/mbpp",
        configs=("full",),
        sizes={"test": 500, "train": 374, "validation": 90, "prompt": 10},
        licence="CC-BY-4.0",
        domain="code",
        to_problem=_mbpp,
    ),
    NamedDataset(
        name="mbpp+",
        about="part of MBPP with many more tests",
        repository="evalplus/mbppplus",
        sizes={"test": 378},
        licence="Apache-2.0",
        domain="code",
        to_problem=_mbpp_plus,
    ),
    NamedDataset(
        name="gpqa",
        about="science questions for experts, four choices (diamond)",
        repository="Idavidrein/gpqa",
        configs=("gpqa_diamond",),
        sizes={"train": 198},
        licence="CC-BY-4.0",
        domain="general",
        to_problem=_gpqa,
        is_gated=True,
    ),
)
DATASETS: Mapping[str, NamedDataset] = {each.name: each for each in _ALL}
