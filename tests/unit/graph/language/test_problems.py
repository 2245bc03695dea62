import pickle

import pytest

import graphmill as gm
from graphmill.core.positions import FileProblem
from graphmill.graph.language.document import Document
from graphmill.graph.language.problems import Problems


@pytest.fixture
def document(tmp_path):
    path = tmp_path / "flow.yaml"
    path.write_text("name: a\nnodes:\n  - {id: n, prompt: 'Hi ${x}'}\n")
    return Document.read(path)


def test_problems_are_raised_all_at_once_in_the_order_of_their_places_and_each_once(document):
    problems = Problems(document)
    problems.raise_if_any()
    problems.add(("nodes", 0, "prompt"), "third", offset=3)
    problems.add(("name",), "second")
    problems.add(("name",), "first", is_key=True)
    problems.add(("name",), "second")
    with pytest.raises(gm.WorkflowError) as caught:
        problems.raise_if_any()
    assert caught.value.path == document.path
    assert caught.value.problems == [
        f"{document.path}:1:1: first",
        f"{document.path}:1:7: second",
        f"{document.path}:3:25: third",
    ]
    assert str(caught.value) == "\n".join(caught.value.problems)
    assert caught.value.placed[0] == FileProblem(document.path, 1, 1, "first")


def test_notes_raise_nothing(document):
    problems = Problems(document)
    problems.note(("name",), "it is called otherwise there")
    problems.raise_if_any()
    assert [str(note) for note in problems.notes] == [f"{document.path}:1:7: it is called otherwise there"]


def test_without_a_file_a_problem_has_no_line():
    problems = Problems(Document.from_data({}))
    problems.add(("nodes",), "missing")
    with pytest.raises(gm.WorkflowError, match=r"^workflow: missing$"):
        problems.raise_if_any()


def test_the_problems_of_another_document_come_after_one_s_own_with_their_places(document, tmp_path):
    (tmp_path / "child.yaml").write_text("a: [")
    child = Problems(Document.from_data({}, "child.py"))
    child.add((), "wrong")
    child.note((), "other")
    problems = Problems(document)
    with pytest.raises(gm.WorkflowError) as unread:
        Document.read(tmp_path / "child.yaml")
    problems.adopt(unread.value)
    problems.adopt(child)
    problems.add(("nodes",), "own")
    with pytest.raises(gm.WorkflowError) as caught:
        problems.raise_if_any()
    assert [problem.file for problem in caught.value.placed] == [
        document.path,
        str(tmp_path / "child.yaml"),
        "child.py",
    ]
    assert problems.notes == child.notes


def test_very_many_problems_are_counted_and_not_listed(document):
    problems = Problems(document)
    for number in range(1500):
        problems.add(("name",), f"problem {number}")
        problems.note(("name",), f"note {number}")
    with pytest.raises(gm.WorkflowError) as caught:
        problems.raise_if_any()
    assert len(caught.value.problems) == 1001
    assert caught.value.problems[-1] == f"{document.path}: and 500 more"
    assert len(problems.notes) == 1000


def test_an_error_with_places_survives_pickling():
    error = gm.WorkflowError("flow.yaml", ["one", FileProblem("other.md", 2, 3, "two")])
    twin = pickle.loads(pickle.dumps(error))
    assert str(twin) == str(error) == "flow.yaml: one\nother.md:2:3: two"
    assert (twin.problems, twin.placed) == (["one", "other.md:2:3: two"], error.placed)
