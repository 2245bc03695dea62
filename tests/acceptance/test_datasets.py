"""Datasets of the Hugging Face hub: the real client, against a hub on this machine."""

import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graphmill as gm
from support.command import answered, rows, run
from support.fake_hub import REVISION, fake_hub, hub_in_process

WORKFLOW = """
inputs: {problem: {required: true, type: string}}
nodes: [{id: shown, type: value, params: {value: "${problem}"}}]
outputs: {answer: "${shown.value}"}
"""
ONE_CONFIG = "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: test\n    path: data/test-*\n---\n"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with hub_in_process(tmp_path, monkeypatch) as found:
        yield found


def lines(items):
    return "".join(json.dumps(item) + "\n" for item in items)


def parquet(items, **options):
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(items), stream, **options)
    return stream.getvalue()


def math500(count=500):
    """Rows as the hub has them, each of about a thousand bytes."""
    return lines(
        {
            "problem": f"What is {number} + 1?",
            "solution": "It is easy. " * 70 + f"\\boxed{{{number + 1}}}",
            "answer": str(number + 1),
            "subject": "Algebra" if number % 2 else "Geometry",
            "level": number % 5 + 1,
            "unique_id": f"test/algebra/{number}.json",
        }
        for number in range(count)
    )


# -- the whole way


def test_a_command_runs_a_dataset_by_its_name_and_the_workflow_sees_only_what_it_declares(tmp_path):
    (tmp_path / "wf.yaml").write_text(WORKFLOW)
    with fake_hub(tmp_path) as hub:
        hub.add("HuggingFaceH4/MATH-500", {"README.md": "---\nlicense: mit\n---\n", "test.jsonl": math500()})
        chosen = ["-s", "math500", "--filter", "level=5", "--offset", 1, "--limit", 3]
        said = answered(tmp_path, "batch", "wf.yaml", *chosen, "-o", "out.jsonl", **hub.variables)
    first, *_ = found = rows(tmp_path / "out.jsonl")
    assert "3/3 items succeeded" in said
    assert [row["id"] for row in found] == [f"test/algebra/{number}.json" for number in (9, 14, 19)]
    assert first["output"] == {"answer": "What is 9 + 1?"}
    assert first["input"] == {
        "id": "test/algebra/9.json",
        "problem": "What is 9 + 1?",
        "ground_truth": "10",
        "metadata": {"level": 5, "subject": "Algebra", "solution": "It is easy. " * 70 + "\\boxed{10}"},
        "domain": "math",
    }


def test_a_resume_reads_the_commit_of_the_run_and_needs_no_hub(hub, tmp_path):
    hub.add("HuggingFaceH4/MATH-500", {"test.jsonl": math500(12)})

    def slow(item):
        if item["id"].endswith("/3.json"):
            raise gm.Permanent("no")

    journal = tmp_path / "runs.db"
    policy = gm.Policy(max_failures=0, concurrency=1)
    report = gm.batch(slow, gm.source("math500", shuffle=1), journal=journal, run_id="r", policy=policy)
    assert report.stopped is not None
    # The dataset moves on.
    hub.revision = "b4" * 20
    hub.add("HuggingFaceH4/MATH-500", {"test.jsonl": math500(2)})
    with pytest.raises(gm.UsageError, match="has no revision"):
        list(gm.source(f"math500@{REVISION[:-1]}0"))
    asked = len(hub.server.seen)
    again = gm.batch(lambda item: None, gm.source("math500", shuffle=1), journal=journal, run_id="r", on_change="keep")
    assert (again.statistics.done, len(hub.server.seen)) == (12, asked)
    hub.server.__exit__()
    try:
        assert gm.resume("r", graph=lambda item: None, journal=journal, on_change="keep").statistics.done == 12
    finally:
        hub.server.__enter__()


def test_some_rows_are_streamed_and_all_rows_are_downloaded_once(hub):
    hub.add("HuggingFaceH4/MATH-500", {"test.jsonl": math500()})
    whole = len(math500())
    source = gm.source("math500", limit=20)
    assert (source.count(), len(list(source)), len(list(source))) == (20, 20, 20)
    assert sum(size for _, size in hub.bodies) < whole / 4
    hub.bodies.clear()
    assert gm.source("math500").count() == len(list(gm.source("math500"))) == 500
    assert hub.bodies == [("HuggingFaceH4/MATH-500/test.jsonl", whole)]
    assert len(list(gm.source("math500", limit=20))) == 20  # from the cache
    assert len(hub.bodies) == 1


def test_of_parquet_only_the_row_groups_and_files_that_are_needed_are_fetched(hub):
    items = [{"question": f"{number}?" + "ab" * 300, "answer": f"x\n#### {number},000"} for number in range(3000)]
    files = {
        f"main/test-0000{number}.parquet": parquet(items, row_group_size=300, compression="none") for number in range(2)
    }
    card = ONE_CONFIG.replace("default", "main").replace("data/", "main/")
    hub.add("openai/gsm8k", {"README.md": card, **files})
    first, *rest = gm.source("gsm8k", limit=20)
    assert (first["ground_truth"], len(rest)) == ("0000", 19)
    sent = [(name, size) for name, size in hub.bodies if name.endswith("parquet")]
    assert {name for name, _ in sent} == {"openai/gsm8k/main/test-00000.parquet"}
    assert sum(size for _, size in sent) < len(files["main/test-00000.parquet"]) / 4


# -- rows and problems

MATH_ROW = {"problem": "p", "level": "Level 5", "type": "Algebra", "solution": "so $\\boxed{\\frac{1}{2}}$"}
HUMANEVAL = {
    "task_id": "HumanEval/0",
    "prompt": "def f(x):\n",
    "entry_point": "f",
    "canonical_solution": "    return x\n",
    "test": "def check(candidate):\n    assert candidate(1) == 1\n",
}
MBPP = {
    "task_id": 11,
    "text": "Write a function.",
    "code": "import re\ndef helper(x):\n    return x\ndef f(x):\n    return helper(x)",
    "test_list": ["assert f(1) == 1", "assert f(2) == 2"],
    "test_setup_code": "import math",
    "challenge_test_list": [],
}
MBPP_PLUS = {
    "task_id": 2,
    "prompt": "Write a function.",
    "code": "def f(x):\n    return x",
    "test_imports": ["import math"],
    "test_list": ["assert f(1) == 1"],
    "test": "for x in range(9): assert f(x) == x",
}
GPQA = {
    "Record ID": "rec1",
    "Question": "Why?",
    "Correct Answer": "because",
    "Incorrect Answer 1": "a",
    "Incorrect Answer 2": "b",
    "Incorrect Answer 3": "c",
    "High-level domain": "Physics",
    "Subdomain": "Optics",
    "Explanation": "e",
}
AIME = {"id": 60, "problem": "p", "answer": 204, "solution": "s", "url": "u", "year": "2024"}
SETS = {
    "math": ("EleutherAI/hendrycks_math", "algebra/test-0.parquet", MATH_ROW),
    "gsm8k": ("openai/gsm8k", "main/test-0.parquet", {"question": "q", "answer": "a <<1+1=2>>2\n#### 1,002"}),
    "humaneval": ("openai/openai_humaneval", "openai_humaneval/test-0.parquet", HUMANEVAL),
    "humaneval+": ("evalplus/humanevalplus", "data/test-0.parquet", HUMANEVAL),
    "mbpp": ("google-research-datasets/mbpp", "full/test-0.parquet", MBPP),
    "mbpp+": ("evalplus/mbppplus", "data/test-0.parquet", MBPP_PLUS),
    "aime24": ("HuggingFaceH4/aime_2024", "data/train-0.parquet", AIME),
    "aime25": ("math-ai/aime25", "test.jsonl", {"problem": "p", "answer": "70", "id": "0"}),
    "gpqa": ("Idavidrein/gpqa", "gpqa_diamond/train-0.parquet", GPQA),
}


def problem_of(hub, name):
    repository, file, row = SETS[name]
    hub.add(repository, {file: lines([row]) if file.endswith("jsonl") else parquet([row])})
    if name == "math":
        others = ("counting_and_probability", "geometry", "intermediate_algebra", "number_theory", "prealgebra")
        hub.add(
            repository,
            {
                f"{subject}/test-0.parquet": parquet([row | {"problem": subject}])
                for subject in (*others, "precalculus")
            },
        )
    found = list(gm.source(name))
    assert len(found) == (7 if name == "math" else 1)
    return gm.Problem(**found[0])


@pytest.mark.parametrize(
    ("name", "truth", "domain", "metadata"),
    [
        ("math", "\\frac{1}{2}", "math", {"level": 5, "subject": "Algebra", "solution": MATH_ROW["solution"]}),
        ("gsm8k", "1002", "math", {"solution": "a 2"}),
        ("aime24", "204", "math", {"solution": "s", "url": "u", "year": "2024"}),
        ("aime25", "70", "math", {}),
        (
            "humaneval",
            "    return x\n",
            "code",
            {name: HUMANEVAL[name] for name in ("task_id", "entry_point", "prompt", "test")},
        ),
        ("mbpp", MBPP["code"], "code", {"tests": MBPP["test_list"], "setup": "import math", "entry_point": "f"}),
        (
            "mbpp+",
            MBPP_PLUS["code"],
            "code",
            {"tests": [MBPP_PLUS["test"]], "setup": "import math", "entry_point": "f"},
        ),
    ],
)
def test_each_named_dataset_becomes_problems(hub, name, truth, domain, metadata):
    problem = problem_of(hub, name)
    assert (problem.ground_truth, problem.domain, problem.metadata) == (truth, domain, metadata)
    assert problem.id.partition("/")[2]


@pytest.mark.parametrize("name", ["mbpp", "mbpp+"])
def test_mbpp_shows_its_first_assert_and_no_other_test(hub, name):
    text = problem_of(hub, name).problem
    assert (text.startswith("Write a function."), "assert f(1) == 1" in text) == (True, True)
    assert ("f(2)" in text, "range(9)" in text) == (False, False)


def test_gpqa_lists_its_choices_in_one_fixed_order_and_the_truth_is_a_letter(hub):
    problem = problem_of(hub, "gpqa")
    assert f"{problem.ground_truth}) because" in problem.problem
    assert sorted(problem.metadata["choices"]) == ["a", "b", "because", "c"]
    assert next(iter(gm.source("gpqa")))["problem"] == problem.problem


def test_a_split_is_named_after_a_colon(hub):
    hub.add(
        "openai/gsm8k",
        {f"main/{split}-0.jsonl": lines([{"question": split, "answer": "#### 1"}]) for split in ("train", "test")},
    )
    assert [[item["problem"] for item in gm.source(name)] for name in ("gsm8k", "gsm8k:train")] == [["test"], ["train"]]
    with pytest.raises(gm.UsageError, match=r"no split 'trian' \(did you mean 'train'"):
        gm.source("gsm8k:trian")


def test_any_dataset_is_read_by_its_place_with_config_split_and_revision(hub):
    card = (
        "---\nconfigs:\n"
        "- {config_name: small, data_files: [{split: train, path: [small/a.csv, small/b.csv.gz]}]}\n"
        "- {config_name: large, data_files: [{split: train, path: 'large/*.jsonl'}, {split: test, path: 'x/*'}]}\n---\n"
    )
    files = {"small/a.csv": "q;a\n1;2\n", "small/b.csv.gz": gzip.compress(b"q,a\n3,4\n"), "large/x.jsonl": '{"q": 5}\n'}
    hub.add("me/mine", {"README.md": card, **files})
    assert list(gm.source(f"hf:me/mine@{REVISION}?config=small&split=train", columns={"problem": "q"})) == [
        {"problem": "1", "a": "2"},
        {"problem": "3", "a": "4"},
    ]
    assert list(gm.source("hf:me/mine?config=large")) == [{"q": 5}]
    for spec, message in [
        ("hf:me/mine", "several configs.*small, large"),
        ("hf:me/mine?config=smal", "no config 'smal' \\(did you mean 'small'"),
        ("hf:me/mine?config=small&split=test", "no split 'test' of config 'small'.*splits are train"),
        ("hf:me/mine?config=large&split=test", "no split 'test'.*splits are train"),
        ("hf:mine", "must be given as hf:org/name"),
        ("hf:me/mine?splits=x", "unknown option 'splits'"),
    ]:
        with pytest.raises(gm.UsageError, match=message):
            list(gm.source(spec))


def test_without_a_card_files_tell_their_split_by_their_names(hub):
    hub.add("me/plain", {"dev.jsonl": "1\n", "data/train-00000.jsonl": "2\n", "notes.txt": "x"})
    hub.add("me/configs", {"easy.jsonl": "5\n", "hard/test.jsonl": "6\n", "harder.jsonl": "7\n"})
    hub.add("me/one", {"everything.json": "[3]", "dataset_infos.json": "{}"})
    hub.add("me/twice", {"test.jsonl": "4\n", "data/test-0.parquet": parquet([{"n": 4}]), "stats/test.json": "[1]"})
    hub.add("me/none", {"data.py": "x"})
    assert list(gm.source("hf:me/plain")) == [1]  # validation before train, where there is no test
    assert list(gm.source("hf:me/plain?split=train")) == [2]
    assert list(gm.source("hf:me/one")) == [3]
    assert list(gm.source("hf:me/twice")) == [{"n": 4}]
    assert [list(gm.source(f"hf:me/configs?config={name}")) for name in ("easy", "hard")] == [[5], [6]]
    with pytest.raises(gm.UsageError, match=r"no Parquet, JSON, CSV or YAML files.*refs/convert/parquet"):
        list(gm.source("hf:me/none"))


# -- what goes wrong


def test_a_gated_a_vanished_and_a_changed_dataset_are_one_clear_error(hub):
    hub.gated.add("Idavidrein/gpqa")
    hub.add("Idavidrein/gpqa", {"gpqa_diamond/train.csv": "a\n1\n"})
    with pytest.raises(gm.UsageError, match=r"gpqa is gated: accept its terms at http.*hf auth login.*HF_TOKEN"):
        list(gm.source("gpqa"))
    with pytest.raises((gm.UsageError, gm.SourceError), match="gpqa is gated"):
        list(gm.source("gpqa", limit=2))
    with pytest.raises(gm.UsageError, match=r"no dataset openai/gsm8k, or it is private: check the name at http"):
        list(gm.source("gsm8k"))
    hub.add("HuggingFaceH4/MATH-500", {"test.jsonl": '{"problem": "p"}\n'})
    with pytest.raises(gm.SourceError, match=r"test\.jsonl: line 1: the row has no field 'unique_id'"):
        list(gm.source("math500"))


def test_without_network_or_the_extra_the_command_says_what_to_do(tmp_path):
    (tmp_path / "wf.yaml").write_text(WORKFLOW)
    with fake_hub(tmp_path) as hub:
        variables = hub.variables
    code, _, err = run(tmp_path, "batch", "wf.yaml", "-s", "math500", **variables)
    assert (code, err.count("\n") < 4) == (65, True)
    assert "cannot read dataset HuggingFaceH4/MATH-500" in err
    assert "check the network" in err
    (tmp_path / "huggingface_hub.py").write_text("raise ImportError('no')")
    code, _, err = run(tmp_path, "batch", "wf.yaml", "-s", "math500", **variables, PYTHONPATH=str(tmp_path))
    assert (code, "pip install 'graphmill[hub]'" in err) == (2, True)


def test_a_name_that_is_no_file_suggests_the_dataset():
    with pytest.raises(gm.UsageError, match=r"\(did you mean 'math500'\?\)"):
        gm.source("math50")


def test_the_datasets_are_listed_with_size_licence_and_source(tmp_path):
    table = answered(tmp_path, "datasets")
    assert [part in table for part in ("gsm8k", "1,319", "MIT", "hf:openai/gsm8k", ":train 7,473", "gated")] == [
        True
    ] * 6
    listed = json.loads(answered(tmp_path, "datasets", "--json"))["datasets"]
    assert {each["name"] for each in listed} == set(SETS) | {"math500"}
