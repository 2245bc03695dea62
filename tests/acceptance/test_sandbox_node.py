"""The sandbox node: programs of models, and commands on their files."""

import json
import sys

import pytest

import graphmill as gm
from support.remains import nothing_left

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no sandbox elsewhere")

HOSTILE = '"; import os; os._exit(7) #\n$(exit 7) `exit 7` ${x} \\'
COPY = """Here it is:
```python
import json, os, sys
print(json.dumps([sys.argv[1:], sys.stdin.read()]))
with open('out.txt', 'w') as file:
    file.write(json.load(open('in/data.json'))['text'])
os.symlink('/usr/lib/os-release', 'link.txt')
```
"""


def workflow(project, params, inputs):
    path = project / "flow.json"
    nodes = [{"id": "run", "type": "sandbox", "params": params}]
    path.write_text(json.dumps({"inputs": {name: {} for name in inputs}, "nodes": nodes}))
    return path


def ran(project, params, **inputs):
    """Run a workflow of one sandbox node; give the node's outputs."""
    with nothing_left():
        result = gm.run(workflow(project, params, inputs), inputs)
    assert result.is_success, result.error
    return result.output


def test_a_program_gets_arguments_input_and_files_and_gives_files_back(tmp_path):
    params = {
        "code": "${answer}",
        "args": [1, "${text}"],
        "stdin": "${text}",
        "files": {"in/data.json": {"text": "${text}"}},
        "outputs": ["out.txt", "missing.txt", "link.txt"],
    }
    found = ran(tmp_path, params, answer=COPY, text=HOSTILE)
    assert (found["outcome"], found["exit_code"], found["stderr"]) == ("success", 0, "")
    assert json.loads(found["stdout"]) == [["1", HOSTILE], HOSTILE]
    assert found["files"] == {"out.txt": HOSTILE}


def test_a_command_gets_values_as_arguments_and_runs_no_shell(tmp_path):
    params = {"command": ["printf", "%s|%s", "${text}"], "args": ["${text}"]}
    assert ran(tmp_path, params, text=HOSTILE)["stdout"] == f"{HOSTILE}|{HOSTILE}"
    params = {"command": ["python3", "main.py"], "files": {"main.py": "${answer}"}}
    assert ran(tmp_path, params, answer="print(6 * 7)")["stdout"] == "42\n"


@pytest.mark.parametrize(
    ("params", "outcome", "said"),
    [
        ({"code": "raise ValueError('no')"}, "exception", "ValueError: no"),
        ({"code": "x ="}, "compile_error", "SyntaxError"),
        ({"code": "raise SystemExit(3)"}, "failed", ""),
        ({"code": "while True: pass", "cpu_s": 1}, "timeout", ""),
        ({"code": "x = [0] * 10**9", "memory_mb": 64}, "memory_limit", "MemoryError"),
        ({"command": ["no-such-command"]}, "failed", "command not found"),
    ],
)
def test_a_program_that_fails_is_an_output(params, outcome, said, tmp_path):
    found = ran(tmp_path, params)
    assert (found["outcome"], found["exit_code"] != 0) == (outcome, True)
    assert said in found["stderr"]


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"code": "print('${text}')"}, "args, stdin or files"),
        ({"command": ["sh", "-c", "echo ${text}"]}, "run as code"),
        ({"command": []}, "must not be empty"),
        ({}, "either code or command"),
        ({"code": "1", "command": ["ls"]}, "either code or command"),
        ({"code": "1", "files": {"../up": "x"}}, "relative name"),
        ({"code": "1", "outputs": ["/etc/passwd"]}, "relative name"),
        ({"code": "1", "memory_mb": 1}, "64"),
    ],
)
def test_a_value_that_might_be_run_and_a_name_outside_are_refused(params, said, tmp_path):
    with pytest.raises(gm.WorkflowError, match=said):
        gm.load(workflow(tmp_path, params, ["text"]))


def test_many_items_share_few_sandboxes(tmp_path):
    path = workflow(tmp_path, {"code": "import sys\nprint(sys.argv[1])", "args": ["${n}"]}, ["n"])
    with nothing_left():
        report = gm.batch(path, [{"n": n} for n in range(40)], concurrency=20)
    assert sorted(int(result.output["stdout"]) for result in report.results()) == list(range(40))


def test_an_interrupted_program_ends_its_sandbox(tmp_path):
    path = workflow(tmp_path, {"code": "import time\ntime.sleep(600)", "wall_s": 600}, [])
    with nothing_left():
        result = gm.run(path, {}, policy=gm.Policy(timeout_s=1, retry=gm.Retry(attempts=1)))
    assert result.status == "timed_out"
