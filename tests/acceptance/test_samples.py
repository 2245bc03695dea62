"""Samples: each item several times, every one of them a job of its own that is known by its number for good."""

import json
from collections import Counter
from pathlib import Path

import pytest

import graphmill as gm
from support import warm
from support.asked_model import answer
from support.command import COMMAND, HANG_S, environment, rows, write_items

NOW = gm.Policy(retry=gm.Retry(attempts=1))
ASK = "{inputs: {n: {}}, nodes: [{id: ask, type: llm, params: {model: scripted/play, prompt: '${n}', seed: 7}}]}"


def run_command(*arguments):
    return warm.run([*COMMAND, *arguments], capture_output=True, timeout=HANG_S, env=environment(), text=True)


def ids(report):
    return [(result.job_id, result.sample, result.item_id) for result in report.results()]


@pytest.fixture(params=[False, True], ids=["in memory", "recorded"])
def options(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return {"journal": "runs.db"} if request.param else {}


class TestNames:
    """Under which id a sample goes."""

    def test_the_first_goes_by_the_item_s_id_and_the_others_by_their_number_too(self, options):
        report = gm.batch(lambda item: item["id"], [{"id": "a"}, {"id": "b"}], samples=3, **options)
        assert report.summary() == "6/6 samples of 2 items succeeded"
        expected = [(f"{name}{end}", sample, name) for name in "ab" for sample, end in enumerate(["", "#2", "#3"], 1)]
        assert sorted(ids(report)) == sorted(expected)
        assert [result.job_id for result in sorted(report.results(), key=lambda result: result.position)] == [
            each[0] for each in expected
        ]
        assert report.statistics.total == 6

    @pytest.mark.parametrize("samples", [1, None])
    def test_one_sample_is_as_none(self, options, samples):
        given = {} if samples is None else {"samples": samples}
        (result,) = gm.batch(lambda item: item, [{"id": "a"}], **given, **options).results()
        assert (result.job_id, result.sample, result.item_id, result.metadata) == ("a", 0, "a", {})

    def test_items_without_an_id_are_told_apart_too(self, options):
        found = ids(gm.batch(lambda item: item, ["x", "x", 0], samples=2, **options))
        assert len({job_id for job_id, _, _ in found}) == 6
        assert sorted(Counter(item for _, _, item in found).values()) == [2, 2, 2]
        assert all(job_id == (item if sample == 1 else f"{item}#2") for job_id, sample, item in found)

    def test_an_item_that_has_the_name_of_a_sample_is_refused(self):
        with pytest.raises(gm.DuplicateIdError, match="a#2"):
            gm.batch(lambda item: item, [{"id": "a"}, {"id": "a#2"}], samples=2, journal="memory:")

    def test_an_id_may_look_like_a_sample_s(self, options):
        found = ids(gm.batch(lambda item: item, [{"id": "a#2"}], samples=2, **options))
        assert found == [("a#2", 1, "a#2"), ("a#2#2", 2, "a#2")]

    @pytest.mark.parametrize("samples", [0, -1, 10_001, 2.0, True, "3", None])
    def test_a_number_that_can_not_be_meant_is_refused(self, samples):
        with pytest.raises(gm.UsageError, match="samples must be an integer from 1 to 10,000"):
            gm.batch(lambda item: item, [1], samples=samples)


class TestItems:
    """Where the items come from."""

    def test_a_series_is_read_as_lazily_as_without(self, options):
        read = []

        def items():
            for number in range(100):
                read.append(number)
                yield number

        policy = gm.Policy(concurrency=1, window=4, max_failures=0, retry=gm.Retry(attempts=1))

        def fail(_):
            raise ValueError("no")

        report = gm.batch(fail, items(), samples=4, policy=policy, **options)
        assert report.statistics.failed == 1
        assert len(read) < 10

    def test_of_an_async_series_too(self, options):
        async def items():
            yield {"id": "a"}
            yield {"id": "b"}

        assert [each[0] for each in ids(gm.batch(lambda item: item, items(), samples=2, **options))] == [
            "a",
            "a#2",
            "b",
            "b#2",
        ]

    def test_an_empty_series_has_no_samples(self, options):
        assert gm.batch(lambda item: item, [], samples=5, **options).statistics.total == 0

    def test_what_one_sample_changes_no_other_sees(self, options):
        def change(item):
            item["list"].append(1)
            return len(item["list"])

        report = gm.batch(change, [{"list": []}], samples=3, **options)
        assert [result.output for result in report.results()] == [1, 1, 1]


class TestModels:
    """What a model is asked."""

    def test_each_has_a_seed_of_its_own_and_says_which_it_is(self, played):
        gm.batch(played.graph(ASK), [{"id": "a", "n": 1}], samples=3)
        assert sorted((each.seed, each.origin.sample, each.origin.item) for each in played.asked) == [
            (7, 1, "a"),
            (8, 2, "a"),
            (9, 3, "a"),
        ]

    def test_without_a_seed_none_is_sent(self, played):
        gm.batch(played.graph(ASK.replace(", seed: 7", "")), [{"n": 1}], samples=2)
        assert [each.seed for each in played.asked] == [None, None]

    def test_a_script_can_answer_each_differently(self, played):
        played.by = lambda request: answer(f"sample {request.origin.sample}")
        report = gm.batch(played.graph(ASK), [{"n": 1}], samples=2)
        assert [result.output["response"] for result in report.results()] == ["sample 1", "sample 2"]


class TestGoingOn:
    """Resume and retry."""

    @pytest.fixture(autouse=True)
    def _here(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

    def test_only_the_samples_that_are_left_are_done(self):
        done, runs = [], []

        async def note(item):
            done.append(item["id"])
            if len(done) == 4:
                runs[0].drain()
            return len(done)

        items = [{"id": name} for name in "abc"]
        first = gm.batch(note, items, samples=3, run_id="r", concurrency=1, on_start=runs.append)
        assert first.statistics.succeeded == 4
        report = gm.batch(note, items, samples=3, run_id="r")
        assert [each[0] for each in ids(report)] == [f"{name}{end}" for name in "abc" for end in ("", "#2", "#3")]
        assert (report.statistics.succeeded, Counter(done)) == (9, {"a": 3, "b": 3, "c": 3})

    def test_a_retry_does_the_failed_samples_again_as_the_samples_they_are(self, played):
        played.by = lambda request: gm.Permanent("no") if request.origin.sample == 2 else answer("fine")
        graph = played.graph(ASK)
        gm.batch(graph, [{"id": "a", "n": 1}, {"id": "b", "n": 2}], samples=3, run_id="r", policy=NOW)
        played.by, played.asked = None, []
        report = gm.retry("r")
        assert sorted((each.origin.item, each.origin.sample, each.seed) for each in played.asked) == [
            ("a", 2, 8),
            ("b", 2, 8),
        ]
        assert [(result.job_id, result.sample, result.status) for result in report.results()] == [
            (f"{name}{end}", sample, "succeeded") for name in "ab" for sample, end in enumerate(["", "#2", "#3"], 1)
        ]

    def test_another_number_of_samples_is_refused(self):
        gm.batch(str, [{"id": "a"}], samples=3, run_id="r")
        for samples in (1, 5):
            with pytest.raises(
                gm.ChangedError, match=f"run r has 3 samples of each item, not {samples}; use --samples 3"
            ):
                gm.batch(str, [{"id": "a"}], samples=samples, run_id="r", on_change="keep")
        gm.batch(str, [{"id": "a"}], run_id="s")
        with pytest.raises(gm.ChangedError, match="run s has 1 sample of each item, not 2"):
            gm.batch(str, [{"id": "a"}], samples=2, run_id="s")

    def test_new_items_have_all_their_samples(self):
        gm.batch(str, [{"id": "b"}], samples=2, run_id="r")
        report = gm.batch(str, [{"id": "a"}, {"id": "b"}], samples=2, run_id="r")
        assert sorted(each[0] for each in ids(report)) == ["a", "a#2", "b", "b#2"]


class TestCommand:
    """From the command line."""

    @pytest.fixture(autouse=True)
    def _here(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("w.yaml").write_text("{inputs: {n: {}}, nodes: [{id: v, type: value, params: {x: '${n}'}}]}")
        write_items(tmp_path, [{"id": "a", "n": 1}, {"id": "b", "n": 2}])

    def test_each_sample_is_a_row_with_its_number(self, tmp_path):
        done = run_command(
            "batch", "w.yaml", "--source", "items.jsonl", "--samples", "2", "--output", "out.jsonl", "--run-id", "r"
        )
        assert (
            done.returncode,
            "2 samples of each" in done.stderr,
            "4/4 samples of 2 items succeeded" in done.stdout,
        ) == (0, True, True)
        assert [(row["id"], row["metadata"]["sample"]) for row in rows(tmp_path / "out.jsonl")] == [
            ("a", 1),
            ("a#2", 2),
            ("b", 1),
            ("b#2", 2),
        ]
        run_command("export", "r", "out.csv")
        assert [line.split(",")[0] for line in Path("out.csv").read_text().splitlines()] == [
            "id",
            "a",
            "a#2",
            "b",
            "b#2",
        ]
        assert json.loads(run_command("show", "r", "a#2", "--json").stdout)["results"][0]["metadata"]["sample"] == 2
        assert run_command("resume", "r").returncode == 0

    @pytest.mark.parametrize("samples", ["0", "-1", "10001", "x", "1.5"])
    def test_other_numbers_are_refused(self, samples):
        done = run_command("batch", "w.yaml", "--source", "items.jsonl", "--samples", samples)
        assert (done.returncode, "--samples" in done.stderr) == (2, True)
