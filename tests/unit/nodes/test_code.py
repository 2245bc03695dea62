import os
import time
from dataclasses import replace
from textwrap import dedent

import pytest

import graphmill as gm
from graphmill.core.result import Kind
from graphmill.graph.node_type import Output
from graphmill.nodes.code import MAX_OUTPUT_BYTES, CodeCall, run_code
from support.node_steps import ONCE, check, problem_of, result_of_step


def run(code, **inputs):
    """Run code in this process, as a worker would."""
    return run_code(CodeCall(dedent(code), inputs))


def result(code, **inputs):
    return run(code, **inputs).values["result"]


# --- what it gives ---


def test_inputs_are_variables_and_what_is_assigned_to_result_is_the_result():
    assert run("result = [name.upper() for name in names]", names=["a"]) == Output(
        {"result": ["A"], "stdout": "", "stderr": ""}
    )


def test_the_predecessor_s_typed_form_works():
    code = """
    data: list[dict[str, Any]]
    limit: Optional[int]
    rate: float
    other: "list"
    result: dict = {"names": [row["name"] for row in data[:limit]], "rate": rate}
    """
    assert result(code, data=[{"name": "a"}, {"name": "b"}], limit=None, rate=2, other=[]) == {
        "names": ["a", "b"],
        "rate": 2,
    }


def test_text_assigned_to_next_is_the_action():
    assert run("next: str = 'retry' if bad else 'go'\nresult = 1", bad=True) == Output(
        {"result": 1, "stdout": "", "stderr": ""}, "retry"
    )
    assert run("next = 'go'") == Output({"result": None, "stdout": "", "stderr": ""}, "go")
    assert result("result = next(iter([5]))") == 5
    for wrong in ("5", "''", "None"):
        with pytest.raises(gm.Permanent, match="next must be text"):
            run(f"next = {wrong}")


def test_functions_classes_and_comprehensions_of_the_code_see_its_variables():
    code = """
    from dataclasses import dataclass
    @dataclass
    class Pair:
        left: int
        right: int
    def double(x): return x * factor
    result = [Pair(x, double(x)) for x in range(count)]
    """
    assert result(code, factor=3, count=2) == [{"left": 0, "right": 0}, {"left": 1, "right": 3}]


def test_each_call_has_a_namespace_of_its_own():
    assert result("seen = 1\nresult = seen") == 1
    with pytest.raises(NameError):
        run("result = seen")


def test_a_result_comes_back_as_json_would_give_it():
    assert result("result = {'t': (1, 2), 's': {3}}") == {"t": [1, 2], "s": [3]}
    with pytest.raises(gm.Permanent, match="the output is not JSON: object is not a JSON type"):
        run("result = object()")


# --- what it prints ---


def test_what_it_prints_is_kept():
    output = run(
        "import sys\nprint('a', 'ü')\nsys.stdout.buffer.write(b'raw')\nprint('no', file=sys.stderr)\nresult = 1"
    )
    assert output.values == {"result": 1, "stdout": "a ü\nraw", "stderr": "no\n"}


def test_a_flood_of_output_is_cut_with_a_mark():
    stdout = run("for _ in range(300): print('x' * 999)\nresult = 1").values["stdout"]
    assert stdout.startswith("xxx")
    assert stdout.endswith("x\n\n… 200,000 more bytes were cut")
    assert len(stdout) < MAX_OUTPUT_BYTES + 100


def test_code_may_close_its_output():
    assert run("import sys\nprint('a')\nsys.stdout.close()\nresult = 1").values["result"] == 1


# --- how it fails ---


def test_an_error_carries_the_line_of_the_code():
    with pytest.raises(ZeroDivisionError) as caught:
        run("def f(x):\n    return 1 / x\n\nresult = f(0)")
    assert caught.value.__notes__ == ["line 2 of the code: return 1 / x"]


def test_code_that_leaves_result_out_fails_for_good():
    with pytest.raises(gm.Permanent, match="without assigning to result"):
        run("if given:\n    result = 1", given=False)


@pytest.mark.parametrize(
    ("code", "inputs", "message"),
    [
        ("n: int\nresult = n", {"n": "3"}, "n must be int .* got str"),
        ("n: int | None\nresult = n", {"n": []}, r"n must be int \| None .* got list"),
        ("n: Optional[str]\nresult = n", {"n": 1}, r"n must be Optional\[str\] .* got int"),
        ("result: list[int] = n", {"n": {}}, r"result must be list\[int\] .* got dict"),
    ],
)
def test_a_value_of_another_type_than_the_code_declares_fails_for_good(code, inputs, message):
    with pytest.raises(gm.Permanent, match=message):
        run(code, **inputs)


def test_a_type_that_is_not_known_is_not_checked():
    assert result("import decimal\nn: decimal.Decimal | int\nresult: Any = n", n="x") == "x"


# --- in its worker process ---


def test_code_runs_in_a_worker_process():
    output = result_of_step(
        "code", code="import os\nprint('hi')\nresult = [os.getpid(), it]", inputs={"it": "${not} a template"}
    ).output
    assert output.values["result"][0] != os.getpid()
    assert output.values["result"][1] == "${not} a template"
    assert output.values["stdout"] == "hi\n"


def test_code_that_will_not_end_is_killed_at_its_time():
    began = time.monotonic()
    stuck = result_of_step(
        "code",
        code="while True:\n    try:\n        while True: pass\n    except BaseException: pass\nresult = 1",
        policy=replace(ONCE, timeout_s=0.5),
    )
    assert stuck.error.kind is Kind.TIMEOUT
    assert time.monotonic() - began < 20


def test_a_failure_in_the_worker_tells_the_line():
    error = result_of_step("code", code="x = {}\nresult = x.a").error
    assert error.kind is Kind.PERMANENT
    assert error.message == "'dict' object has no attribute 'a' (line 2 of the code: result = x.a)"
    assert 'File "<code>", line 2' in error.traceback


def test_an_error_without_a_text_is_told_by_its_type_and_line():
    error = result_of_step("code", code="result = 1\nraise ValueError()").error
    assert error.message == "ValueError (line 2 of the code: raise ValueError())"
    assert error.traceback.endswith("\nValueError (line 2 of the code: raise ValueError())")


def test_code_that_ends_its_process_is_a_crash_of_its_own():
    assert result_of_step("code", code="import os\nos._exit(3)\nresult = 1").error.kind is Kind.CRASH


# --- what is found when the workflow is compiled ---


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\nresult = = 2", "code: line 2, column 10: invalid syntax: result = = 2"),
        (
            "result = 1\nreturn result",
            "code: line 2, column 1: 'return' outside function: return result; use result = … instead",
        ),
        (
            "if True:\nresult = 1",
            "code: line 2, column 1: expected an indented block after 'if' statement on line 1: result = 1",
        ),
        ("x = 1", "code must assign to result; add a line such as: result = …"),
        ("result: int", "code must assign to result; add a line such as: result = …"),
        ("def f():\n    result = 1", "code must assign to result; add a line such as: result = …"),
        ("data: list\nresult = data", "code: line 1: data is declared but is not an input; add it to inputs"),
    ],
)
def test_what_is_wrong_with_code_is_found_before_it_runs(code, message):
    assert problem_of("code", code=code) == (("code",), message)


def test_odd_texts_are_no_python_and_do_no_harm():
    for code in ("result = 1\0", "result = " + "(" * 5000 + ")" * 5000, "\ud800"):
        at, message = problem_of("code", code=code)
        assert at == ("code",)
        assert message.startswith("code: ")


@pytest.mark.parametrize(
    "code",
    [
        "for result in [1]: pass",
        "import json as result",
        "def result(): pass",
        "a, (result, b) = 1, (2, 3)",
        "if (result := 1): pass",
        "[result := x for x in [1]]",
        "def f():\n    global result\n    result = 1\nf()",
        "with open('x') as result: pass",
        "match 1:\n    case result: pass",
        "result: int\nresult = 1",
        "x = '\\d'\nresult = x is 1",
    ],
)
def test_every_way_to_assign_counts(code):
    check("code", code=code)


def test_inputs_of_code_are_names_and_of_the_declared_type():
    code = "n: int\nresult = n"
    check("code", code=code, inputs={"n": "${x}"})
    check("code", code=code, inputs={"n": 3, "more": 1})
    check("code", code=code, inputs="${all}")
    assert problem_of("code", code=code, inputs={"n": "3"})[0] == ("inputs", "n")
    for name in ("a-b", "class", "3"):
        assert problem_of("code", code="result = 1", inputs={name: 1}) == (
            ("inputs", name),
            f"inputs: {name!r} is not a variable name; use letters, digits and _",
        )
