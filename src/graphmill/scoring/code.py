"""The ``code`` scorer: a program passes its tests, in a sandbox."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphmill.core.errors import Permanent, SandboxError, Unavailable
from graphmill.core.json import text_or_json
from graphmill.core.problem import Problem
from graphmill.sandbox.extract import extract_program
from graphmill.sandbox.pool import SandboxPool
from graphmill.sandbox.sandbox import (
    DEFAULT,
    SandboxLimits,
    SandboxOutcome,
    SandboxProgram,
    SandboxTests,
    find_sandbox,
)
from graphmill.scoring.builtin import no_answer
from graphmill.scoring.score import CORRECT, WRONG, Score

_MOST_TESTS_SHOWN = 200
_MOST_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _CodeProblem:
    """How the answer to a problem is tested: by cases of input and output, or by Python."""

    tests: SandboxTests | None = None
    cases: tuple[tuple[str, str], ...] = ()
    prompt: str = ""

    @property
    def entry_point(self) -> str | None:
        return None if self.tests is None else self.tests.entry_point


class Code:
    """The program in the answer passes its problem's tests: HumanEval, MBPP, your own, or input and output.

    ``tests`` names the field of the problem that has tests of your own. ``packages`` lets programs and tests use the
    packages that are installed here, such as numpy. See docs/sandbox.md for what a program may use.
    """

    version = "1"
    concurrency = os.cpu_count() or 1

    def __init__(
        self,
        *,
        tests: str | None = None,
        cpu_s: float = 10.0,
        wall_s: float | None = None,
        memory_mb: int = 512,
        packages: bool = False,
        sandbox: str = DEFAULT,
    ) -> None:
        self._field = tests
        self._limits = SandboxLimits(
            cpu_s=cpu_s, wall_s=6 * cpu_s if wall_s is None else wall_s, memory_bytes=memory_mb << 20
        )
        self._sandbox_name = sandbox
        self._with_packages = packages
        self._pool: SandboxPool | None = None

    async def open(self) -> None:
        """Start and test the sandbox; SandboxError says how to get one."""
        await self._started().open()

    async def __call__(self, answer: Any, problem: Any) -> Score:
        """Run the answer's program with the problem's tests."""
        known = read_problem(problem, self._field)
        program = extract_program("" if answer is None else text_or_json(answer), known.entry_point, known.prompt)
        if not program.strip():
            return no_answer("the answer has no program")
        try:
            if known.cases:
                return await self._score_cases(program, known.cases)
            outcome = await self._started().run(SandboxProgram(code=program), known.tests, limits=self._limits)
        except SandboxError as error:
            raise Unavailable(str(error)) from error
        if outcome.broken:
            raise Permanent(f"scorer code: the tests of this problem cannot be run: {outcome.broken}")
        if outcome.all_tests_ran and not outcome.test_count:
            raise Permanent("scorer code: the tests of this problem assert nothing")
        return _score_of_tests(program, outcome)

    async def close(self) -> None:
        """End the sandboxes."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    def _started(self) -> SandboxPool:
        if self._pool is None:
            self._pool = SandboxPool(find_sandbox(self._sandbox_name), with_packages=self._with_packages)
        return self._pool

    async def _score_cases(self, program: str, cases: Sequence[tuple[str, str]]) -> Score:
        """Run the program once for each case; after one that takes too long no other is run."""
        results: list[dict[str, Any]] = []
        outcome = None
        for number, (given, wanted) in enumerate(cases, 1):
            limits = replace(self._limits, output_bytes=max(self._limits.output_bytes, 2 * len(wanted.encode()) + 4096))
            outcome = await self._started().run(
                SandboxProgram(code=program, stdin=given.encode("utf-8", "surrogatepass")), limits=limits
            )
            name, text = _judge_case(outcome, wanted)
            results.append({"test": f"case {number}", "outcome": name, "text": text})
            if outcome.limit or name == "compile_error":
                break
        return _score(program, results, len(cases), outcome)


def read_problem(problem: Any, field: str | None = None) -> _CodeProblem:
    """Find the tests of a problem: a Problem, an item of a run, or a row of HumanEval or MBPP as the hub has it.

    Raises:
        Permanent: It has none.

    """
    if isinstance(problem, Mapping) and isinstance(problem.get("problem"), Problem):  # a row of a trainer's columns
        problem = problem["problem"]
    if isinstance(problem, Problem):
        problem = problem.to_json()
    if not isinstance(problem, Mapping):
        raise Permanent(f"scorer code: the problem must be an object that has its tests, got {problem!r:.80}")
    metadata = problem.get("metadata")
    fields = {**problem, **(metadata if isinstance(metadata, Mapping) else {})}
    entry_point = fields.get("entry_point")
    entry_point = entry_point if isinstance(entry_point, str) and entry_point else None
    if field is not None:
        return _own_tests(fields, field, entry_point)
    if fields.get("cases"):
        return _CodeProblem(cases=tuple(_case(each) for each in fields["cases"]))
    if isinstance(fields.get("test"), str) and entry_point:
        prompt = str(fields.get("prompt") or "")
        if not re.search(rf"\b(?:def|class)\s+{re.escape(entry_point)}\b", prompt):
            prompt = ""  # in words, not the beginning of the program
        tests = SandboxTests(tests=(fields["test"],), entry_point=entry_point, prelude=prompt)
        return _CodeProblem(tests=tests, prompt=prompt)
    listed = fields.get("tests") or fields.get("test_list")
    if isinstance(listed, str):
        return _own_tests(fields, "tests", entry_point)
    if isinstance(listed, list) and all(isinstance(each, str) for each in listed):
        setup = [str(fields.get(name) or "") for name in ("setup", "test_setup_code")]
        imports = [str(each) for each in fields.get("test_imports") or ()]
        reference = fields.get("code") or fields.get("ground_truth")
        tests = SandboxTests(
            tests=(*imports, *(each for each in setup if each), *listed),
            entry_point=entry_point or _entry_point(listed[0], reference),
        )
        return _CodeProblem(tests=tests)
    raise Permanent(
        "scorer code: the problem has no tests; it needs prompt, test and entry_point as in HumanEval, a list of tests "
        "as in MBPP, cases of input and output, or tests of your own in a field named with code?tests=FIELD"
    )


def _own_tests(fields: Mapping[str, Any], field: str, entry_point: str | None) -> _CodeProblem:
    tests = fields.get(field)
    tests = [tests] if isinstance(tests, str) else tests
    if not isinstance(tests, list) or not tests or not all(isinstance(each, str) for each in tests):
        raise Permanent(f"scorer code: the field {field!r:.80} of the problem must be Python tests, or a list of them")
    return _CodeProblem(tests=SandboxTests(tests=tuple(tests), entry_point=entry_point))


def _case(case: Any) -> tuple[str, str]:
    if not isinstance(case, Mapping) or "output" not in case:
        raise Permanent(f"scorer code: a case must be an object with input and output, got {case!r:.80}")
    given = case.get("input")
    return "" if given is None else text_or_json(given), text_or_json(case["output"])


def _entry_point(test: str, reference: Any) -> str | None:
    """Find the function that a test calls among those of the reference solution."""
    if not isinstance(reference, str):
        return None
    try:
        defined = {node.name for node in ast.parse(reference).body if isinstance(node, ast.FunctionDef)}
        calls = [
            node.func.id
            for node in ast.walk(ast.parse(test))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        ]
    except (SyntaxError, ValueError, RecursionError):
        return None
    return next((name for name in calls if name in defined), None)


# -- judging


def _score_of_tests(program: str, outcome: SandboxOutcome) -> Score:
    results = [{"test": each.source, "outcome": each.outcome, "text": each.text} for each in outcome.tests]
    if outcome.load != "loaded" and not results:
        results.append(
            {
                "test": "the program itself",
                "outcome": outcome.limit or outcome.load or "exited",
                "text": outcome.load_text,
            }
        )
    elif not outcome.all_tests_ran:
        last = "the next test"
        if results and results[-1]["outcome"] == "exited":
            last = results.pop()["test"]  # in which it ended
        text = f"ended by its limit: {outcome.limit}" if outcome.limit else "the program ended"
        results.append({"test": last, "outcome": outcome.limit or "exited", "text": text})
    return _score(program, results, outcome.test_count, outcome)


def _judge_case(outcome: SandboxOutcome, wanted: str) -> tuple[str, str]:
    if outcome.limit:
        return outcome.limit, f"ended by its limit: {outcome.limit}"
    if outcome.status != 0:
        name = outcome.load if outcome.load in ("compile_error", "exception", "memory_limit") else "exited"
        return name, outcome.load_text or f"exit status {outcome.status}"
    found = outcome.stdout.decode("utf-8", "surrogateescape")
    if _lines(found) == _lines(wanted):
        return "passed", ""
    return WRONG, f"got {_shown(found)}, expected {_shown(wanted)}"


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _score(program: str, results: list[dict[str, Any]], count: int, outcome: SandboxOutcome | None) -> Score:
    failures = [each for each in results if each["outcome"] != "passed"]
    passed = len(results) - len(failures)
    is_correct = not failures and passed == count > 0
    metadata: dict[str, Any] = {
        "outcome": CORRECT if is_correct else failures[0]["outcome"],
        "passed": passed,
        "total": count,
        "tests": results[:_MOST_TESTS_SHOWN],
    }
    explanation = f"{passed} of {count} tests passed"
    if failures:
        explanation += f"; {failures[0]['test']}: {failures[0]['text']}"
    if outcome is not None:
        metadata |= {
            "stdout": _cut(outcome.stdout),
            "stderr": _cut(outcome.stderr),
            "cpu_s": round(outcome.cpu_s, 3),
        }
    return Score(value=float(is_correct), answer=program, explanation=explanation[:_MOST_CHARACTERS], metadata=metadata)


def _cut(output: bytes) -> str:
    """Return the end of an output, where an error stands."""
    text = output.decode("utf-8", "replace")
    return text if len(text) <= _MOST_CHARACTERS else "…" + text[-_MOST_CHARACTERS + 1 :]


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 100 else repr(text[:99]) + "…"
