"""The workflow language: a batch that gives more than memory should hold."""

import sys

import pytest

import graphmill as gm
from graphmill.graph.run import outcomes
from graphmill.journal.scratch import PageFile
from support.recording import KILLED, Program

COUNT = 12


@pytest.fixture
def few(monkeypatch):
    """Let 4 outcomes be all that is kept in memory."""
    monkeypatch.setattr(outcomes, "MAX_IN_MEMORY", 4)


@pytest.fixture
def reads(monkeypatch):
    """Count what is read back."""
    found, get = [], PageFile.get
    monkeypatch.setattr(PageFile, "get", lambda pages, place: found.append(place) or get(pages, place))
    return found


@pytest.fixture
def work(flow):
    """``acts:work`` waits the shorter the later an item comes, and fails for good for each fifth."""

    @flow.act
    async def work(n, **_):
        if n % 5 == 3:
            raise gm.Permanent(f"{n} fails")
        return f"<{n}>"

    @flow.act
    async def total(rows):
        assert type(rows) is list
        return [row["result"] for row in rows]

    return work


def batch(rule="error_handling: continue", after="", outputs=""):
    return f"""
        inputs: {{items: {{default: {list(range(COUNT))}}}}}
        nodes:
          - id: each
            type: python
            params: {{function: "acts:work", inputs: {{n: "${{item}}"}}}}
            batch: {{items: "${{items}}", {rule}}}
          {after}
        {outputs}
    """


def untimed(output):
    return {name: value for name, value in output.items() if name != "batch_metadata"}


GOOD = [n for n in range(COUNT) if n % 5 != 3]


@pytest.mark.parametrize(
    "rule", ["", "parallel: true, max_concurrent: 3", "parallel: true, ordered: false", "max_failures: 1"]
)
@pytest.mark.parametrize("items", [list(range(COUNT)), [1, 2, 4]])
def test_what_was_put_aside_reads_like_what_was_not(flow, work, store, monkeypatch, rule, items):
    text = batch(f"error_handling: continue, {rule}", "- {id: told, type: value, params: {got: '${each}'}}")
    text += "\n        edges: [{from: each, to: told}, {from: each, to: told, action: error}]"
    before = flow.output(text, {"items": items})
    monkeypatch.setattr(outcomes, "MAX_IN_MEMORY", 4)
    after = flow.output(text, {"items": items}, journal=store)
    assert untimed(after["got"]) == untimed(before["got"])
    assert set(after["got"]["batch_metadata"]["timing"]) == set(before["got"]["batch_metadata"]["timing"])


def test_the_outputs_of_the_job_hold_all_of_it_as_plain_lists(flow, work, store, few):
    output = flow.output(batch(), journal=store)
    assert [result["item"] for result in output["results"]] == GOOD
    assert [type(output[name]) for name in ("results", "errors", "outcomes")] == [list] * 3
    assert output == flow.output(batch(outputs="outputs: {results: '${each.results}'}"), journal=store) | output


def test_an_index_reads_one(flow, work, store, few, reads):
    outputs = "outputs: {a: '${each.outcomes[10].result.result}', b: '${each.errors[-1].index}', c: '${each.outcomes[0].status}'}"
    assert flow.output(batch(outputs=outputs), journal=store) == {"a": "<10>", "b": 8, "c": "succeeded"}
    assert len(reads) == 2  # the first is in memory


def test_an_index_beyond_the_end_is_missing_and_the_number_of_entries_is_told(flow, work, store, few):
    failure = flow.failure(batch(outputs="outputs: {a: '${each.outcomes[12]}'}"), journal=store)
    assert (failure.kind, "which has 12 entries" in failure.message) == ("permanent", True)


@pytest.mark.parametrize("rule", ["parallel: false", "parallel: true, max_concurrent: 2"])
def test_the_items_of_another_batch_are_read_as_they_begin(flow, work, store, few, reads, rule):
    seen = []

    @flow.act
    async def look(n):
        seen.append(len(reads) - n)

    after = f"""- {{id: next, type: python, params: {{function: "acts:look", inputs: {{n: "${{row.original_index}}"}}}},
                batch: {{items: "${{each.results}}", as: row, {rule}}}}}"""
    output = flow.output(batch(after=after, outputs="outputs: {n: '${next.count}'}"), journal=store)
    assert (output, max(seen) <= 0, len(seen)) == ({"n": len(GOOD)}, True, len(GOOD))


def test_a_param_and_a_text_bring_it_in(flow, work, store, few):
    after = """- {id: sum, type: python, params: {function: "acts:total", inputs: {rows: "${each.results}"}}}
          - {id: say, type: value, params: {text: "errors: ${each.errors}", deep: [{rows: "${each.results}"}], all: "${each}"}}"""
    output = flow.output(batch(after=after, outputs="outputs: {sum: '${sum.result}', say: '${say}'}"), journal=store)
    assert output["sum"] == [f"<{n}>" for n in GOOD]
    assert output["say"]["text"].startswith('errors: [{"index":3,"item":3,"error":"3 fails"')
    assert [len(output["say"]["deep"][0]["rows"]), len(output["say"]["all"]["outcomes"])] == [len(GOOD), COUNT]


@pytest.mark.parametrize(
    "use",
    [
        'type: python, params: {function: "acts:total", inputs: {rows: "${each.results}"}}',
        'type: value, params: {text: "they are ${each.results}"}',
        'type: value, params: {all: ["${each}"]}',
        'type: code, params: {inputs: {rows: "${each.results}"}, code: "result = 1"}',
    ],
)
def test_more_than_64_mb_is_not_brought_in_and_the_failure_says_what_to_do(flow, work, store, few, monkeypatch, use):
    monkeypatch.setattr(outcomes, "MAX_LOADED_BYTES", 300)
    failure = flow.failure(batch(after=f"- {{id: use, {use}}}"), journal=store)
    assert failure.kind == "permanent"
    assert "each.results has 10 entries" in failure.message or "each.outcomes has 12" in failure.message
    assert "items of a batch" in failure.message
    assert "'use'" in failure.message


def test_outputs_of_more_than_64_mb_are_whole_all_the_same(flow, work, store, few, monkeypatch):
    monkeypatch.setattr(outcomes, "MAX_LOADED_BYTES", 300)
    shown, text = [], batch(outputs="outputs: {rows: '${each.results}'}")
    result = flow.result(text, journal=store, on_result=lambda _, result: shown.append(result))
    assert [row["result"] for row in result.output["rows"]] == [f"<{n}>" for n in GOOD]
    (live,) = shown
    rows = live.output["rows"]  # as it goes by: one entry at a time
    assert (len(rows), rows[-1]["item"], list(rows), rows[1:3]) == (
        10,
        11,
        result.output["rows"],
        result.output["rows"][1:3],
    )


def test_a_child_hands_it_on_and_takes_it(flow, work, store, few, reads):
    text = f"""
        nodes:
          - id: inner
            type: workflow
            params:
              workflow:
                nodes:
                  - {{id: each, type: python, params: {{function: "acts:work", inputs: {{n: "${{item}}"}}}},
                      batch: {{items: {list(range(COUNT))}, error_handling: continue}}}}
                outputs: {{rows: "${{each.results}}"}}
          - id: outer
            type: workflow
            params:
              inputs: {{rows: "${{inner.rows}}"}}
              workflow:
                inputs: {{rows: {{type: array, required: true}}}}
                nodes: [{{id: each, type: value, params: {{n: "${{item.item}}"}}, batch: {{items: "${{rows}}"}}}}]
                outputs: {{last: "${{each.results[-1].n}}"}}
        outputs: {{last: "${{outer.last}}"}}
    """
    assert flow.output(text, journal=store) == {"last": 11}
    assert len(reads) == len(GOOD) - 3 + 1  # each item once, but for those in memory; and the last of the others


def test_a_batch_in_a_batch_has_its_outcomes_whole(flow, work, store, few):
    text = """
        nodes:
          - id: outer
            type: workflow
            params:
              inputs: {n: "${item}"}
              workflow:
                inputs: {n: {required: true}}
                nodes:
                  - {id: each, type: python, params: {function: "acts:work", inputs: {n: "${item}", m: "${n}"}},
                      batch: {items: [0, 1, 2, 4, 5, 6, 7], parallel: true}}
            batch: {items: [0, 1, 2, 3, 4, 5], parallel: true}
    """
    output = flow.output(text, journal=store)
    inner = [[cell["result"] for cell in row["results"]] for row in output["results"]]
    assert inner == [[f"<{n}>" for n in (0, 1, 2, 4, 5, 6, 7)]] * 6


def test_rounds_of_a_loop_hold_it_too(flow, work, store, few):
    text = """
        nodes:
          - id: again
            type: workflow
            params:
              inputs: {past: "${past}"}
              workflow:
                inputs: {past: {type: array}}
                nodes:
                  - {id: each, type: value, params: {n: "${item}"}, batch: {items: [0, 1, 2, 3, 4, 5, 6]}}
                  - {id: seen, type: value, params: {rounds: "${past}"}}
                outputs: {rows: "${each.results}", earlier: '${seen.rounds[-1].rows[6].n ?? "none"}'}
            loop: {max: 2}
        outputs: {earlier: ["${again.rounds[0].earlier}", "${again.rounds[1].earlier}"], last: "${again.best.rows[-1].n}"}
    """
    assert flow.output(text, journal=store) == {"earlier": ["none", 6], "last": 6}


def test_an_item_that_is_no_data_stays_in_memory(flow, work, store, few):
    text = batch(
        "parallel: true", outputs="outputs: {same: '${each.results[6].result}', next: '${each.results[7].item}'}"
    )
    items = [{object()} for _ in range(7)] + [7]
    result = gm.run(flow.write(text.replace('n: "${item}"', "n: 1")), {"items": items}, journal=store)
    assert (result.error, result.output) == (None, {"same": "<1>", "next": 7})


@pytest.mark.parametrize("pages", [None, "full"])
def test_where_nothing_can_be_put_aside_it_stays_in_memory(flow, work, store, few, monkeypatch, pages):
    if pages == "full":
        monkeypatch.setattr(PageFile, "put", lambda _pages, _body: None)
    journal = store if pages else None
    assert [result["item"] for result in flow.output(batch(), journal=journal)["results"]] == GOOD


def test_above_10000_items_outcomes_are_put_aside(flow, store, reads):
    text = """
        inputs: {n: {required: true}}
        nodes: [{id: each, type: value, params: {x: "${item}"}, batch: {items: "${n}"}}]
        outputs: {kept: "${each.results[9999].x}", aside: "${each.results[10000].x}", count: "${each.count}"}
    """
    assert flow.output(text, {"n": list(range(10_001))}, journal=store) == {
        "kept": 9999,
        "aside": 10_000,
        "count": 10_001,
    }
    assert len(reads) == 1


LARGE = """
inputs: {rows: {required: true}}
nodes:
  - {id: each, type: python, params: {function: "program:go", inputs: {text: "${item.text}"}}, batch: {items: "${rows}", parallel: true}}
  - {id: again, type: value, params: {n: "${item.item.n}"}, batch: {items: "${each.results}"}}
outputs: {count: "${each.count}", last: "${each.results[-1].item.n}", length: "${each.results[700].result[0]}"}
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads the peak as Linux tells it")
def test_memory_does_not_grow_with_items_and_results(tmp_path):
    program = Program(
        tmp_path,
        """
        import resource, sys

        async def go(text):
            return [len(text), text]

        def rows(count):
            return ({"n": n, "text": f"{n}" + "x" * 100_000} for n in range(count))

        def peak_mb():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        """,
    )
    (tmp_path / "workflow.yaml").write_text(LARGE, encoding="utf-8")
    script = """
        gm.run("workflow.yaml", {"rows": rows(701)}, journal="journal.db")
        before = peak_mb()
        result = gm.run("workflow.yaml", {"rows": rows(1500)}, journal="journal.db")
        print(result.output, peak_mb() - before < 60)
    """
    assert program.run(script) == "{'count': 1500, 'last': 1499, 'length': 100003} True"


@pytest.mark.parametrize("parallel", ["true", "false"])
def test_after_a_kill_it_is_the_same(tmp_path, parallel):
    program = Program(
        tmp_path,
        """
        from graphmill.graph.run import outcomes

        outcomes.MAX_IN_MEMORY = 10

        def go(n):
            note(f"go-{n}")
            if n == 60 and noted().count("go-60") == 1:
                die()
            return n

        def total(rows):
            return sum(row["result"] for row in rows)
        """,
    )
    text = f"""
nodes:
  - {{id: each, type: python, params: {{function: "program:go", inputs: {{n: "${{item}}"}}}},
      batch: {{items: {list(range(100))}, parallel: {parallel}, max_concurrent: 2}}}}
  - {{id: again, type: value, params: {{n: "${{item.result}}"}}, batch: {{items: "${{each.results}}"}}}}
  - {{id: sum, type: python, params: {{function: "program:total", inputs: {{rows: "${{each.results}}"}}}}}}
outputs: {{sum: "${{sum.result}}", one: "${{each.results[70].result}}", rows: "${{again.results}}"}}
"""
    (tmp_path / "workflow.yaml").write_text(text, encoding="utf-8")
    script = """
        result = gm.run("workflow.yaml", run_id="r", policy=PROMPT)
        print(result.output["sum"], result.output["one"], [row["n"] for row in result.output["rows"]] == list(range(100)))
    """
    program.run(script, code=KILLED)
    assert program.run(script) == f"{sum(range(100))} 70 True"
    assert len(program.notes) - 100 <= 2 * 4
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tmp")] == []
