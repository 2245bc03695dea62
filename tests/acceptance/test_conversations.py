"""`graphmill show RUN ITEM`: what was said to models, as a person reads it."""

import base64
import json

import graphmill as gm
from support.asked_model import answer
from support.command import answered

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
LONG = "\n".join(f"line {number} of a long problem, which nobody wants to read twice" for number in range(14))
COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
REVIEW = """
    name: review
    inputs: {problem: {type: string}}
    nodes:
      - id: debate
        type: workflow
        loop: {max: 2}
        params:
          inputs: {problem: "${problem}"}
          workflow:
            inputs: {problem: {type: string}}
            nodes: [{id: solve, type: llm, params: {role: solver, system: Be brief., prompt: "${problem}"}}]
            outputs: {answer: "${solve.response}"}
      - id: label
        type: llm
        batch: {items: [x, y], as: letter, error_handling: continue}
        params: {model: scripted/play, prompt: "Label ${letter}."}
    edges: [{from: debate, to: label}]
    outputs: {answer: "${debate.best.answer}"}
"""


def lines_of(shown):
    """Give the lines of the steps without their indentation and with single spaces."""
    return [" ".join(line.split()) for line in shown.partition("steps:\n")[2].splitlines()]


def review(played, problem):
    played.settings("roles: {solver: {model: scripted/play, temperature: 0.5}}")
    played.by = lambda request: (
        gm.Permanent("no such letter") if request.messages[-1].text == "Label y." else answer("fine \x1b[31mred")
    )
    gm.batch(played.graph(REVIEW), [{"id": "one", "problem": problem}], run_id="r")


def test_rounds_and_items_of_a_batch_read_like_a_conversation(played, tmp_path):
    review(played, "Add up.")
    shown = answered(tmp_path, "show", "r", "1")
    assert shown.startswith("item one of run r · row 1 · succeeded, degraded ")
    assert "\x1b" not in shown
    lines = lines_of(shown)
    second = next(at for at, line in enumerate(lines) if line.startswith("round 2 "))
    assert lines[second + 1].startswith("solve +")
    assert "solver · scripted/play · 3 tokens" in lines[second + 1]
    assert lines[second + 2 : second + 5] == ["system Be brief.", "user Add up.", r"answer fine \x1b[31mred"]
    assert lines[-2:] == ["user Label y.", "error permanent: scripted/play: no such letter"]


def test_long_messages_are_folded_unless_all_is_asked_for(played, tmp_path):
    review(played, LONG)
    folded = answered(tmp_path, "show", "r", "one")
    assert "… (14 lines; --full)" in folded
    assert "line 13" not in folded.partition("steps:")[2]
    whole = answered(tmp_path, "show", "r", "one", "--full").partition("steps:")[2]
    assert whole.count("line 13 of a long problem") == 2
    assert 'params {"temperature":0.5}' in lines_of("steps:\n" + whole)


def test_one_step_is_shown_whole(played, tmp_path):
    review(played, LONG)
    shown = answered(tmp_path, "show", "r", "one", "--step", "debate@2/solve")
    assert shown.startswith("step debate@2/solve · solver · scripted/play · succeeded · 1 attempt · ")
    assert shown.count("line 13 of a long problem") == 1
    assert "finish_reason stop" in shown
    found = json.loads(answered(tmp_path, "show", "r", "one", "--step", "debate@2/solve", "--json"))
    (call,) = found["calls"]
    assert (call["id"], call["role"], call["round"]) == ("r:one:debate@2/solve", "solver", 2)
    assert (call["request"]["messages"][-1]["content"], call["usage"]["input_tokens"]) == (LONG, 2)
    every = json.loads(answered(tmp_path, "show", "r", "one", "--json"))
    assert every["row"] == 1
    assert [call["path"] for call in every["calls"]] == ["debate@1/solve", "debate@2/solve", "label[0]", "label[1]"]


def test_a_function_that_asks_a_model_twice_shows_why_the_first_answer_was_not_used(played, tmp_path):
    played.answers = ["three", '{"n": 3}']

    async def count(item):
        return await gm.complete("scripted/play", f"Count {item['id']}.", schema=COUNT)

    gm.batch(count, [{"id": "pens"}], run_id="r")
    lines = lines_of(answered(tmp_path, "show", "r", "pens"))
    assert lines[0].startswith("complete#1 ")
    assert [line.partition(" ")[0] for line in lines[1:]] == ["user", "answer", "not", "answer"]
    assert lines[1:3] == ["user Count pens.", "answer three"]
    assert lines[3].startswith("not used ")
    assert lines[4] == 'answer {"n": 3}'
    full = lines_of(answered(tmp_path, "show", "r", "pens", "--full"))
    assert any(line.startswith("user That cannot be used") for line in full)


def test_a_long_answer_that_is_an_object_is_shown_by_its_fields(played, tmp_path):
    played.answers = [json.dumps({"passed": True, "critique": "word " * 60, "scores": {"clarity": 0.5}})]
    played.run({"prompt": "Check it."}, run_id="r")
    lines = lines_of(answered(tmp_path, "show", "r", "job"))
    assert lines[2] == "answer passed: true"
    assert lines[3].startswith("critique: word word ")
    assert lines[3].endswith("characters; --full)")
    assert lines[4] == 'scores: {"clarity":0.5}'


def test_images_and_calls_of_tools_are_named(played, tmp_path):
    (tmp_path / "cat.png").write_bytes(PNG)
    played.answers = [answer(tool_calls=({"id": "t1", "name": "look", "arguments": '{"at": "cat"}'},))]
    asked = {"prompt": "What is it?", "images": ["cat.png"], "tools": [{"name": "look"}]}
    played.run(asked, run_id="r")
    shown = answered(tmp_path, "show", "r", "job")
    assert "[image image/png, 14 bytes, SHA-256 " in shown
    assert 'look({"at": "cat"})' in shown
    assert base64.b64encode(PNG).decode() not in answered(tmp_path, "show", "r", "job", "--json")


def test_an_item_of_a_run_without_prompts_says_so(played, tmp_path):
    played.run({"prompt": "secret plan"}, run_id="r", record_prompts=False)
    shown = answered(tmp_path, "show", "r", "job", "--full")
    assert "does not record prompts" in shown
    assert "secret plan" not in shown
    assert "fine" in shown
