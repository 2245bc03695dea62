import sys
import threading

import pytest

import graphmill as gm
from support.workflows import EAGER, load_workflow, message_of_permanent, output_of, problems_of, result_of

INPUTS = "Variables of the code, or arguments of the function, by name"


def node(function, inputs="{it: '${it}'}"):
    """Write a workflow of one python node."""
    return f"inputs: {{it: {{required: true}}}}\nnodes: [{{id: n, type: python, params: {{function: '{function}', inputs: {inputs}}}}}]"


def made(graph, item):
    """Run one item; give what its function has returned."""
    output = output_of(graph, item)
    assert output == {"result": output["result"], "stdout": "", "stderr": ""}
    return output["result"]


def test_a_plain_function_is_called_by_keyword_in_a_thread_and_an_async_one_on_the_loop(tmp_path, module):
    name = module("""
        import threading
        def plain(it, *, more="default"): return [it, more, threading.current_thread() is threading.main_thread()]
        async def later(it): return [it, threading.current_thread() is threading.main_thread()]
        def gives_a_coroutine(it): return later(it)
    """)
    assert threading.current_thread() is threading.main_thread()
    assert made(load_workflow(tmp_path, node(f"{name}:plain")), 1) == [1, "default", False]
    assert made(load_workflow(tmp_path, node(f"{name}:plain", "{it: 1, more: '${it}'}")), 2) == [1, 2, False]
    assert made(load_workflow(tmp_path, node(f"{name}:later")), 1) == [1, True]
    assert made(load_workflow(tmp_path, node(f"{name}:gives_a_coroutine")), 1) == [1, True]


def test_a_function_may_stand_inside_a_class_or_be_any_callable(tmp_path, module):
    name = module("""
        class Box:
            @staticmethod
            def inner(it): return it
            class Deeper:
                def __call__(self, it): return [it]
        box = Box.Deeper()
    """)
    assert made(load_workflow(tmp_path, node(f"{name}:Box.inner")), 1) == 1
    assert made(load_workflow(tmp_path, node(f"{name}:box")), 1) == [1]


def test_inputs_may_be_left_out_or_be_one_mapping_from_before(tmp_path, module):
    name = module("def f(**given): return given")
    assert (
        made(load_workflow(tmp_path, f"nodes: [{{id: n, type: python, params: {{function: '{name}:f'}}}}]"), {}) == {}
    )
    graph = load_workflow(tmp_path, node(f"{name}:f", "'${it}'"))
    assert made(graph, {"it": {"a": 1, "b": [2]}}) == {"a": 1, "b": [2]}
    for wrong, kind in ((5, "an integer"), (None, "null"), ([], "a list"), ("", "text"), ([["a", 1]], "a list")):
        message = message_of_permanent(graph, {"it": wrong})
        assert message == f"invalid params for python: inputs: must be a mapping, got {kind} ({INPUTS}) (in node 'n')"


# --- isolation ---


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_function_can_not_change_what_came_before_it(tmp_path, module, kind):
    name = module(f"""
        def make(): return {{"list": [1], "deep": {{"list": [[1]]}}}}
        {kind} spoil(made, items, default):
            made["list"].append(2); made["deep"]["list"][0].append(2); made["new"] = 1
            items.clear(); default.append(2)
        def look(made): return [made["list"], made["deep"]["list"], sorted(made)]
    """)
    graph = load_workflow(
        tmp_path,
        f"""
        inputs: {{items: {{required: true}}, default: {{default: [1]}}}}
        nodes:
          - {{id: make, type: python, params: {{function: "{name}:make"}}}}
          - {{id: hold, type: value, params: {{made: "${{make.result}}"}}}}
          - id: spoil
            type: python
            params: {{function: "{name}:spoil", inputs: {{made: "${{hold.made}}", items: "${{items}}", default: "${{default}}"}}}}
          - {{id: look, type: python, params: {{function: "{name}:look", inputs: {{made: "${{make.result}}"}}}}}}
        outputs: {{seen: "${{look.result}}", items: "${{items}}", default: "${{default}}"}}
        """,
    )
    item = {"items": [1, 2]}
    expected = {"seen": [[1], [[1]], ["deep", "list"]], "items": [1, 2], "default": [1]}
    assert gm.batch(graph, [item, item | {"id": "other"}]).collect() == [expected, expected]
    assert item == {"items": [1, 2]}


# --- failures ---


def test_what_a_function_raises_is_the_item_s_failure_and_retried_by_its_kind(tmp_path, module):
    name = module("""
        import graphmill as gm
        def broken(it): raise ValueError(f"no {it}")
        def hopeless(it): raise gm.Permanent("never")
    """)
    result = result_of(load_workflow(tmp_path, node(f"{name}:broken")), "luck")
    assert (result.error.kind, result.error.message, result.attempts) == (
        "transient",
        "no luck (in node 'n')",
        EAGER.retry.attempts,
    )
    assert message_of_permanent(load_workflow(tmp_path, node(f"{name}:hopeless")), 1) == "never (in node 'n')"


@pytest.mark.parametrize("signature", ["other", "", "it, other", "it, /"])
def test_inputs_that_do_not_fit_the_function_are_a_problem_of_the_workflow(tmp_path, module, signature):
    name = module(f"def f({signature}): return 1")
    with pytest.raises(gm.WorkflowError, match=r"workflow\.yaml:2:\d+: node 'n': params: the inputs do not fit f\("):
        load_workflow(tmp_path, node(f"{name}:f"))


def test_wrong_arguments_that_only_show_when_it_runs_fail_for_good(tmp_path, module):
    name = module("def f(other): return other")
    workflow = f"inputs: {{it: {{required: true}}}}\nnodes: [{{id: n, type: python, params: {{function: '{name}:f', inputs: '${{it}}'}}}}]"
    assert "unexpected keyword argument 'x'" in message_of_permanent(
        load_workflow(tmp_path, workflow), {"it": {"x": 1}}
    )


@pytest.mark.parametrize(
    ("expression", "type_name"),
    [
        ("b''", "bytes"),
        ("object()", "object"),
        ("[{'deep': 1j}]", "complex"),
        ("print", "builtin_function_or_method"),
        ("range(2)", "range"),
    ],
)
def test_an_output_that_is_not_json_fails_for_good_and_names_the_type(tmp_path, module, expression, type_name):
    name = module(f"def f(it): return {expression}")
    message = message_of_permanent(load_workflow(tmp_path, node(f"{name}:f")), 1)
    assert message == f"the output is not JSON: {type_name} is not a JSON type (in node 'n')"


def test_an_output_that_holds_itself_fails_for_good(tmp_path, module):
    name = module("""
        def f(it):
            loop = {}
            loop["loop"] = loop
            return loop
    """)
    message = message_of_permanent(load_workflow(tmp_path, node(f"{name}:f")), 1)
    assert message.startswith("the output is not JSON: ")
    assert message.endswith(" (in node 'n')")


def test_a_value_in_between_is_what_json_makes_of_it_so_that_it_is_the_same_after_a_restart(tmp_path, module):
    name = module("""
        from datetime import date
        def make(it): return {1: (1, 2), "set": {2, 1}, "day": date(2024, 2, 29), "half": 0.5}
        def use(kind): return [kind, type(kind["1"]).__name__]
    """)
    text = f"""
    inputs: {{it: {{required: true}}}}
    nodes:
      - {{id: a, type: python, params: {{function: "{name}:make", inputs: {{it: "${{it}}"}}}}}}
      - {{id: b, type: python, params: {{function: "{name}:use", inputs: {{kind: "${{a.result}}"}}}}}}
    """
    plain = {"1": [1, 2], "set": [1, 2], "day": "2024-02-29", "half": 0.5}
    assert made(load_workflow(tmp_path, text), 1) == [plain, "list"]


# --- what is found when the workflow is loaded ---


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            "nowhere_to_be_found:f",
            "cannot import 'nowhere_to_be_found': No module named 'nowhere_to_be_found'; searched ",
        ),
        ("json:laods", "json has no 'laods' (did you mean 'loads'?)"),
        ("json:decoder.Nothing", "json has no 'Nothing'"),
        ("json:__doc__", "json:__doc__ is not a function but str"),
        ("json", "function must be module:name, got 'json'"),
        ("json:", "function must be module:name, got 'json:'"),
        (":loads", "function must be module:name, got ':loads'"),
        ("", "function must be module:name, got ''"),
    ],
)
def test_a_function_that_is_not_there_is_a_problem_of_the_workflow(tmp_path, module, function, message):
    (problem,) = problems_of(tmp_path, node(function))
    assert f": node 'n': params: {message}" in problem


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nowhere_to_be_found", "No module named 'nowhere_to_be_found'"),
        ("1 / 0", "raised ZeroDivisionError: division by zero"),
        ("def f(:", "raised SyntaxError: "),
        ("import sys; sys.exit(0)", "raised SystemExit: 0"),
    ],
)
def test_a_module_that_fails_while_it_is_imported_is_a_problem_of_the_workflow(tmp_path, module, text, message):
    name = module(text)
    (problem,) = problems_of(tmp_path, node(f"{name}:f"))
    assert f"'{name}'" in problem
    assert message in problem


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ("{}", "code or function is required"),
        ("{function: null}", "code or function is required"),
        (
            "{function: 5}",
            "function: must be text or null, got an integer (module:name, called with the inputs as keyword arguments)",
        ),
        (
            "{function: 'json:loads', input: {}}",
            "unknown key 'input' (did you mean 'inputs'?); known keys: code, function, inputs, isolation, timeout, memory_mb, requires",
        ),
        ("{function: 'json:loads', inputs: [1]}", f"inputs: must be a mapping, got a list ({INPUTS})"),
        ("{function: 'json:loads', inputs: null}", f"inputs: must be a mapping, got null ({INPUTS})"),
        ("{function: 'json:loads', inputs: text}", f"inputs: must be a mapping, got text ({INPUTS})"),
    ],
)
def test_wrong_params_are_told_with_what_would_be_right(tmp_path, params, message):
    (problem,) = problems_of(tmp_path, f"nodes: [{{id: n, type: python, params: {params}}}]")
    assert problem.partition(": node 'n': params: ")[2] == message


def test_modules_are_looked_for_where_the_command_was_started_and_once(tmp_path, module):
    name = module("def f(it): return it")
    before = list(sys.path)
    for _ in range(3):
        load_workflow(tmp_path, node(f"{name}:f"))
    assert sys.path == [str(tmp_path), *before]
