"""The llm node: what is asked, what is given, what is a failure, and that nothing is asked twice."""

import base64
import json

import pytest

import graphmill as gm
from graphmill.core.model_call import Image, Message, Text, Tool, ToolCall
from support.asked_model import answer, failing
from support.command import answered

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
PARAMS = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 7, "seed": 3, "reasoning_effort": "low"}


class TestAsked:
    """What the provider is asked."""

    def test_a_prompt_is_asked_and_its_answer_given_with_all_that_belongs_to_it(self, played):
        output = played.output({"prompt": "Say ${word}."}, inputs={"word": "so"})
        assert played.asked[0].messages == (Message("user", "Say so."),)
        assert output == {
            "response": "fine",
            "usage": output["usage"],
            "finish_reason": "stop",
            "model": "played",
            "tool_calls": [],
            "logprobs": None,
            "metadata": {"calls": 1},
        }
        assert (output["usage"]["requests"], output["usage"]["input_tokens"], output["usage"]["cost_usd"]) == (
            1,
            2,
            0.5,
        )

    def test_system_comes_first_then_what_was_said_then_the_prompt(self, played):
        past = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        played.output({"system": "Be brief.", "messages": past, "prompt": "c"})
        assert [(each.role, each.text) for each in played.asked[0].messages] == [
            ("system", "Be brief."),
            ("user", "a"),
            ("assistant", "b"),
            ("user", "c"),
        ]

    def test_every_param_is_passed_on(self, played):
        tool = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
        played.output({"prompt": "x", **PARAMS, "stop": "end", "tools": [tool], "logprobs": 4, "extra": {"top_k": 1}})
        asked = played.asked[0]
        assert {name: getattr(asked, name) for name in PARAMS} == PARAMS
        assert (asked.stop, asked.tools, asked.logprobs, asked.extra) == (("end",), (Tool(**tool),), 4, {"top_k": 1})

    def test_a_prompt_that_is_data_is_sent_as_json(self, played):
        played.output({"prompt": "${row}"}, inputs={"row": {"a": [1, "é"]}})
        assert played.texts() == ['{"a":[1,"é"]}']

    @pytest.mark.parametrize("function", [{"name": "look"}, "${tool}"])
    def test_a_tool_may_be_written_as_others_write_it(self, played, function):
        tools = [{"type": "function", "function": function}]
        played.output({"prompt": "x", "tools": tools}, inputs={"tool": {"name": "look"}})
        assert played.asked[0].tools == (Tool(name="look"),)

    def test_images_are_sent_beside_the_prompt(self, played, tmp_path):
        (tmp_path / "cat.png").write_bytes(PNG)
        played.output(
            {
                "prompt": "x",
                "images": ["cat.png", "https://example.org/dog.png", {"data": "QQ==", "media_type": "image/gif"}],
            }
        )
        assert played.asked[0].messages[0].content == (
            Image(data=base64.b64encode(PNG).decode()),
            Image(url="https://example.org/dog.png"),
            Image(data="QQ==", media_type="image/gif"),
            Text("x"),
        )

    def test_a_file_that_is_no_image_is_never_sent(self, played, tmp_path):
        (tmp_path / "secret.png").write_text("root:x:0:0")
        failure = played.failure({"prompt": "x", "images": ["secret.png"]})
        assert (failure.kind, played.asked) == ("permanent", [])
        assert "not a PNG, JPEG, GIF or WebP image" in failure.message

    def test_the_request_says_which_item_and_round_it_is_for(self, played):
        graph = played.graph(
            "nodes: [{id: ask, type: llm, params: {model: scripted/play, prompt: x}, loop: {max: 2}}]",
        )
        gm.batch(graph, [{"id": "first"}])
        assert [(each.origin.item, each.origin.round) for each in played.asked] == [("first", 1), ("first", 2)]


class TestNames:
    """Which model a name or a role means."""

    def test_a_name_stands_for_a_model_and_its_params_which_the_node_s_own_override(self, played):
        played.settings("models: {fast: {model: scripted/quick, temperature: 0, max_tokens: 5}}")
        played.output({"prompt": "x", "max_tokens": 9}, model="fast")
        asked = played.asked[0]
        assert (asked.model, asked.temperature, asked.max_tokens) == ("quick", 0, 9)

    def test_a_role_stands_for_a_name_with_params_of_its_own(self, played):
        played.settings(
            "models: {fast: {model: scripted/quick, temperature: 0, seed: 1}}\nroles: {judge: {model: fast, temperature: 1}}",
        )
        played.output({"prompt": "x", "role": "judge"}, model=None)
        assert (played.asked[0].model, played.asked[0].temperature, played.asked[0].seed) == ("quick", 1, 1)

    def test_an_empty_list_of_stops_takes_those_away_that_are_set_for_the_model(self, played):
        played.settings("models: {fast: {model: scripted/quick, stop: [end]}}")
        played.output({"model": "fast", "prompt": "x"})
        played.output({"model": "fast", "prompt": "x", "stop": []})
        assert [asked.stop for asked in played.asked] == [("end",), ()]

    def test_without_a_name_the_model_called_default_is_asked(self, played):
        played.settings("models: {default: scripted/usual}")
        played.output({"prompt": "x"}, model=None)
        assert played.asked[0].model == "usual"

    def test_a_model_may_be_known_only_by_the_item(self, played):
        graph = played.graph("{inputs: {m: {}}, nodes: [{id: ask, type: llm, params: {model: '${m}', prompt: x}}]}")
        results = list(gm.batch(graph, [{"m": "scripted/a"}, {"m": "scripted/b"}, {"m": "nobody/c"}]).results())
        assert sorted(each.model for each in played.asked) == ["a", "b"]
        assert [result.status for result in results] == ["succeeded", "succeeded", "failed"]
        assert "unknown provider 'nobody'" in results[2].error.message
        assert "define it under providers in graphmill.yaml" in results[2].error.message

    def test_a_role_without_a_model_is_told_before_anything_runs(self, played):
        with pytest.raises(
            gm.UsageError, match=r"node 'ask': no model for the role 'judge'.*write roles: \{judge: provider/model\}"
        ):
            played.run({"prompt": "x", "role": "judge"}, model=None)

    def test_no_model_at_all_is_told_before_anything_runs(self, played):
        with pytest.raises(gm.UsageError, match="node 'ask': no model given"):
            played.run({"prompt": "x"}, model=None)

    @pytest.mark.parametrize(
        ("params", "said"),
        [
            ("{prompt: x, model: fst}", "no model 'fst' (did you mean 'fast'?); write provider/model"),
            ("{prompt: x, model: scriptd/a}", "unknown provider 'scriptd' (did you mean 'scripted'?)"),
            ("{prompt: x, model: fast, role: judge}", "either model or role"),
            ("{model: fast}", "prompt or messages is required"),
            (
                "{model: fast, prompt: x, output_schema: {type: objct}}",
                'the JSON Schema is not valid: type: "objct"',
            ),
            (
                "{model: fast, prompt: x, output_schema: {requried: [a]}}",
                "unknown keyword 'requried' (did you mean 'required'?)",
            ),
            ("{model: fast, prompt: x, temprature: 1}", "unknown key 'temprature' (did you mean 'temperature'?)"),
            ("{model: fast, prompt: x, max_tokens: 0}", "max_tokens"),
            (
                "{model: fast, messages: [{role: usr, content: x}]}",
                "messages.0.role: must be one of system, user, assistant, tool, got 'usr'",
            ),
            ("{model: fast, messages: [x]}", "messages.0: must be a mapping, got text"),
            ("{model: fast, prompt: x, tools: [3]}", "tools.0: must be a mapping, got an integer"),
            (
                "{model: fast, prompt: x, tools: [{name: a}, {nam: b}]}",
                "tools.1: unknown key 'nam' (did you mean 'name'?)",
            ),
            (
                "{model: fast, prompt: x, tools: [{function: {name: 3}}]}",
                "tools.0.name: must be text, got an integer",
            ),
            (
                "{model: fast, prompt: x, tools: [{type: function, function: 3}]}",
                "tools.0: must be a mapping, got an integer",
            ),
            (
                "{model: fast, prompt: x, images: [a.png, 4]}",
                "images.1: must be text or a mapping, got an integer",
            ),
            (
                "{model: fast, prompt: x, images: ['']}",
                "an image must be a URL, a file's path, or {data, media_type}, got ''",
            ),
            ("{model: fast, prompt: x, images: [a.png, {}]}", "an image must have data or url"),
            ("{model: fast, prompt: x, images: [{image_url: x}]}", "images: Object contains unknown field `image_url`"),
            ("{model: fast, prompt: x, temperature: 101}", "temperature: must be a number <= 100.0"),
        ],
    )
    def test_mistakes_are_found_before_the_first_item(self, played, params, said):
        played.settings("models: {fast: scripted/a}")
        with pytest.raises(gm.WorkflowError) as caught:
            played.graph(f"nodes: [{{id: ask, type: llm, params: {params}}}]")
        assert said in str(caught.value)


class TestNoSuccess:
    """Answers that are none: one kind each, and no result."""

    @pytest.mark.parametrize(
        ("given", "kind", "said"),
        [
            (answer("half", reason="length"), "permanent", "cut at max_tokens"),
            (answer("", reason="refusal"), "permanent", "the model refused"),
            (answer("", reason="content_filter"), "permanent", "content filter"),
            (answer("half", reason="other"), "transient", "before the answer was complete"),
            (answer(" \n"), "transient", "the answer is empty"),
            (gm.Transient("server error"), "transient", "server error"),
            (gm.Permanent("too long"), "permanent", "too long"),
            (TypeError("a fault of the provider's"), "permanent", "TypeError: scripted/play: a fault"),
            (KeyError("odd"), "transient", "KeyError"),
        ],
    )
    @pytest.mark.parametrize("more", [{}, {"output_schema": SCHEMA}], ids=["text", "schema"])
    def test_each_is_a_failure_of_its_kind_that_names_the_model(self, played, given, kind, said, more):
        played.answers = [given]
        failure = played.failure({"prompt": "x", **more})
        assert failure.kind == kind
        assert said in failure.message
        assert "scripted/play" in failure.message
        assert len(played.asked) == (1 if kind == "permanent" else 3)

    def test_an_empty_answer_is_one_where_it_may_end_at_once(self, played):
        played.answers = [""]
        assert played.output({"prompt": "x", "stop": "."})["response"] == ""

    def test_what_failed_attempts_used_is_counted(self, played):
        played.answers = [
            failing(gm.Transient("cut"), input_tokens=5, cost_nano=1_000_000_000),
            answer("x", reason="other"),
            "fine",
        ]
        result = played.run({"prompt": "x"})
        assert (result.status, result.attempts) == ("succeeded", 3)
        assert (result.usage["requests"], result.usage["input_tokens"], result.cost_usd) == (3, 9, 2.0)

    def test_what_a_refused_answer_used_is_counted(self, played):
        played.answers = [answer("no", reason="refusal")]
        result = played.run({"prompt": "x"})
        assert (result.status, result.usage["requests"], result.cost_usd) == ("failed", 1, 0.5)
        assert result.error.answer == "no"


class TestStructure:
    """Answers of a shape."""

    def test_the_provider_is_asked_for_it_and_the_data_are_given(self, played):
        played.answers = ['{"a": 1}']
        assert played.output({"prompt": "x", "output_schema": SCHEMA})["response"] == {"a": 1}
        assert played.asked[0].schema == SCHEMA
        assert played.texts() == ["x"]

    def test_where_the_provider_has_no_means_it_is_asked_for_in_words(self, played):
        played.settings("", provider=", output_schema: prompt")
        played.answers = ['{"a": 1}']
        played.output({"prompt": "x", "system": "Be brief.", "output_schema": SCHEMA})
        system, user = played.asked[0].messages
        assert (played.asked[0].schema, user.text) == (None, "x")
        assert system.text.startswith("Be brief.\n\nAnswer with one JSON value")
        assert '"required":["a"]' in system.text

    @pytest.mark.parametrize(
        ("text", "repaired"),
        [
            ('```json\n{"a": 1}\n```', "fence"),
            ('Here:\n```\n{"a": 1}\n```\nDone.', "fence"),
            ('Sure! {"a": 1} I hope it helps.', "text"),
        ],
    )
    def test_what_can_not_be_mistaken_is_repaired_and_said(self, played, text, repaired):
        played.answers = [text]
        output = played.output({"prompt": "x", "output_schema": SCHEMA})
        assert (output["response"], output["metadata"]) == ({"a": 1}, {"calls": 1, "repaired": repaired})

    @pytest.mark.parametrize(
        ("text", "read", "repaired"),
        [
            (r'["\boxed{\frac12}", {"x": "a \beta"}]', [r"\boxed{\frac12}", {"x": r"a \beta"}], "latex"),
            (r'["\u0008eta"]', [r"\beta"], "latex"),
            ('```json\n["\\frac12"]\n```', [r"\frac12"], "fence, latex"),
            (r'["\\boxed{2}"]', [r"\boxed{2}"], None),
            (r'["a\b\bx", "a\b ", "\f2", "tab\there\nnu\rrho"]', ["a\b\bx", "a\b ", "\f2", "tab\there\nnu\rrho"], None),
        ],
    )
    def test_a_backslash_of_latex_that_json_took_for_an_escape_is_restored_and_said(self, played, text, read, repaired):
        played.answers = [text]
        output = played.output({"prompt": "x", "output_schema": {"type": "array"}})
        assert output["response"] == read
        assert output["metadata"].get("repaired") == repaired

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("no", "the answer is not JSON"),
            ('{"a": "1"}', 'a: "1" is not of type "integer"'),
            ('{"a": 1, "b": 2}', "'b' was unexpected"),
            ('{"a": 1} {"a": 2}', "more than one JSON value"),
            ('{"a": NaN}', "NaN is not a JSON number"),
            ('{"a": 1', "the answer is not JSON"),
        ],
    )
    def test_an_answer_that_does_not_fit_is_asked_for_again_with_the_reason(self, played, text, said):
        played.answers = [text, '{"a": 2}']
        result = played.run({"prompt": "x", "output_schema": SCHEMA})
        assert result.output["response"] == {"a": 2}
        assert [each.text for each in played.asked[1].messages[:-1]] == ["x", text]
        assert said in played.texts()[1]
        assert (result.output["metadata"], result.attempts, result.usage["requests"]) == ({"calls": 2}, 1, 2)

    def test_it_is_asked_three_times_at_most_and_then_fails_for_good(self, played):
        played.answers = ["no"]
        result = played.run({"prompt": "x", "output_schema": SCHEMA})
        assert (result.error.kind, result.attempts, len(played.asked), result.usage["requests"]) == (
            "permanent",
            1,
            3,
            3,
        )
        assert "no valid answer in 3 calls; the answer is not JSON" in result.error.message

    def test_the_error_holds_the_last_answer_which_the_row_and_the_page_of_the_item_show(self, played, tmp_path):
        def told(*arguments):
            return answered(tmp_path, *arguments, "--journal", "runs.db")

        played.answers = ["first", "second", "I would say\nthree."]
        params = {"model": "scripted/play", "prompt": "x", "output_schema": SCHEMA}
        graph = played.graph({"nodes": [{"id": "ask", "type": "llm", "params": params}]})
        (result,) = gm.batch(graph, [{"id": "one"}], run_id="r", journal=tmp_path / "runs.db").results()
        assert result.error.answer == "I would say\nthree."
        assert "three" not in result.error.message  # failures that are alike stay one group
        row = json.loads(told("export", "r", "-"))
        assert row["error"]["answer"] == "I would say\nthree."
        assert "answer: I would say three." in told("show", "r", "one")
        assert told("show", "r", "one", "--step", "ask").endswith("answer:\n  I would say\n  three.\n")

    def test_a_long_answer_is_cut(self, played):
        played.answers = ["x" * 5000]
        assert played.failure({"prompt": "x", "output_schema": SCHEMA}).answer == "x" * 1999 + "…"

    def test_a_function_can_read_it(self, played):
        played.answers = ["no"]
        with pytest.raises(gm.Permanent) as caught:
            gm.complete("scripted/play", "x", schema=SCHEMA)
        assert caught.value.answer == "no"

    def test_an_answer_that_asks_for_tools_need_not_have_it(self, played):
        played.answers = [
            answer("", reason="tool_calls", tool_calls=(ToolCall(id="1", name="look", arguments={"at": 2}),))
        ]
        output = played.output({"prompt": "x", "output_schema": SCHEMA, "tools": [{"name": "look"}]})
        assert output["tool_calls"] == [{"id": "1", "name": "look", "arguments": {"at": 2}}]
        assert (output["response"], output["finish_reason"]) == ("", "tool_calls")


def asking(count):
    return [{"id": str(number), "n": number} for number in range(count)]


WORKFLOW = "{inputs: {n: {}}, nodes: [{id: ask, type: llm, params: {%s, prompt: 'Item ${n}.'}}]}"


class TestRuns:
    """Runs of many calls."""

    def test_calls_of_a_model_share_a_lane_of_its_name(self, played):
        graph = played.graph(WORKFLOW % "model: scripted/play")
        lanes = set()
        gm.batch(graph, asking(3), on_progress=lambda now: lanes.update(lane.key for lane in now.lanes))
        assert "scripted/play" in lanes

    def test_credit_that_is_exhausted_fails_no_item_and_the_run_goes_on_to_its_end(self, played, store):
        graph = played.graph(WORKFLOW % "model: scripted/play")
        played.by = lambda request: answer("fine") if len(played.asked) <= 50 else gm.Unavailable("no credit is left")
        policy = gm.Policy(concurrency=4, park_after_s=0.5)
        first = gm.batch(graph, asking(100), run_id="r", journal=store, policy=policy)
        assert (first.statistics.failed, first.stopped) == (0, "outage")
        assert "no credit is left" in first.stopped_because
        done = first.statistics.succeeded
        assert 50 <= done < 60
        played.by, played.asked = None, []
        report = gm.batch(graph, asking(100), run_id="r", journal=store)
        assert (report.statistics.succeeded, report.statistics.failed) == (100, 0)
        assert len(played.asked) == 100 - done
        assert sum(result.usage["requests"] for result in report.results()) == 100

    def test_a_key_that_is_not_set_is_told_before_anything_runs(self, played, monkeypatch):
        monkeypatch.delenv("GRAPHMILL_TEST_KEY", raising=False)
        played.settings("", provider=", key: {env: GRAPHMILL_TEST_KEY}")
        with pytest.raises(
            gm.UsageError, match="node 'ask' calls scripted/play: environment variable GRAPHMILL_TEST_KEY is not set"
        ):
            played.run({"prompt": "x"})

    def test_what_is_answered_is_not_asked_again_and_a_changed_model_is_told(self, played, store):
        played.settings("roles: {judge: scripted/a}")
        graph = played.graph(WORKFLOW % "role: judge")
        gm.batch(graph, asking(3), run_id="r", journal=store)
        played.asked.clear()
        assert gm.batch(graph, asking(4), run_id="r", journal=store).statistics.succeeded == 4
        assert len(played.asked) == 1
        played.settings("roles: {judge: scripted/b}")
        with pytest.raises(gm.ChangedError, match="node 'ask' changed"):
            gm.batch(played.graph(WORKFLOW % "role: judge"), asking(4), run_id="r", journal=store)
        played.asked.clear()
        report = gm.batch(
            played.graph(WORKFLOW % "role: judge"), asking(4), run_id="r", journal=store, on_change="invalidate"
        )
        assert (report.statistics.succeeded, [each.model for each in played.asked]) == (4, ["b"] * 4)

    def test_where_a_model_is_asked_does_not_count_as_a_change(self, played, store):
        gm.batch(played.graph(WORKFLOW % "model: scripted/a"), asking(3), run_id="r", journal=store)
        played.settings("", provider=", headers: {X-Team: blue}")
        played.asked.clear()
        gm.batch(played.graph(WORKFLOW % "model: scripted/a"), asking(3), run_id="r", journal=store)
        assert played.asked == []
