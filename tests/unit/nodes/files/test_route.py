"""Where a path may lead."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.errors import Permanent
from graphmill.graph.node_params import pieced
from graphmill.nodes.files.route import EVERYWHERE, route_of

ROOT = Path("/the/root")


def route(*pieces, allowed=()):
    """Find the way of a path; a list of one stands for what a template came to."""
    path = pieces[0] if len(pieces) == 1 and isinstance(pieces[0], str) else pieced(pieces)
    return route_of("file_path", path, root=ROOT, allowed=allowed)


def way(*pieces, allowed=()):
    found = route(*pieces, allowed=allowed)
    return found.start.path, "/".join(found.names), [ground.path for ground in found.grounds]


@pytest.mark.parametrize(
    ("pieces", "start", "names"),
    [
        (("a.txt",), "/the/root", "a.txt"),
        (("./a//b.txt",), "/the/root", "a/b.txt"),
        (("a/../b.txt",), "/the/root", "b.txt"),
        (("/the/root/a.txt",), "/the/root", "a.txt"),
        (("../a.txt",), "/", "the/a.txt"),
        (("/etc/hosts",), "/", "etc/hosts"),
        (("//etc/hosts",), "/", "etc/hosts"),
        (("out/", ["x"], ".txt"), "/the/root", "out/x.txt"),
        ((["a/b"], "/c"), "/the/root", "a/b/c"),
        ((["~/x"],), "/the/root", "~/x"),
        (([3], ".txt"), "/the/root", "3.txt"),
        ((["/the/root/x"],), "/the/root", "x"),
        (("/data/", ["x"], ".txt"), "/data", "x.txt"),
        (("../near/a-", ["x/y"]), "/the/near", "a-x/y"),
        (("/the/root/in/", ["x"]), "/the/root", "in/x"),
    ],
)
def test_a_path_leads_from_the_roots_folder_unless_its_author_wrote_another(pieces, start, names):
    assert way(*pieces)[:2] == (start, names)


def test_the_home_folder_is_meant_by_an_author_only(monkeypatch):
    monkeypatch.setenv("HOME", "/the/home")
    assert way("~/x")[:2] == ("/", "the/home/x")
    assert way("~/out/", ["x"])[0] == "/the/home/out"
    assert way(["~/x"])[0] == "/the/root"


def test_a_path_outside_that_is_written_in_full_may_go_by_any_link_and_no_other():
    assert route("/etc/hosts").grounds == (EVERYWHERE,)
    assert way("/data/", ["x"], allowed=["more"])[2] == ["/data", "/the/root", "/the/root/more"]
    assert way("x", allowed=["/a/b/../c"])[2] == ["/the/root", "/a/c"]


@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        (("out/", ["../x"]), "`..` leads out"),
        (("out/", ["x/../y"]), "`..` leads out"),
        (("out/", ["x"], "/../y"), "`..` leads out"),
        (("out/.", ["."], "/y"), "`..` leads out"),
        (("out/", ["."], ["./y"]), "`..` leads out"),
        ((["../x"],), "`..` leads out"),
        ((["/the/root/../../etc/passwd"],), "`..` leads out"),
        ((["/etc/passwd"],), "an absolute path"),
        ((["/the/rootless/x"],), "an absolute path"),
        (([""], "/etc/passwd"), "comes to nothing"),
        (("out/", ["/etc/passwd"]), "absolute path, and something is written before it"),
        (("out/", [""], ".json"), "a template in it comes to nothing"),
        ((["a"], "/", ["/etc/passwd"]), "absolute path, and something is written before it"),
        (("out/", ["a\0b"]), "NUL"),
        (("a\0b",), "NUL"),
        (("out/", ["\ud800"]), "surrogate"),
        (("out/", [""]), "comes to nothing"),
        (("out/", ["x/"]), "this is a folder"),
        (("out/", ["."]), "this is a folder"),
        (("out/", [".."]), "this is a folder"),
        (([""],), "comes to nothing"),
        (("",), "an empty text"),
        (("out/", [None]), "not of null"),
        (("out/", [["a"]]), "not of a list"),
        (("out/", [{"a": 1}]), "not of a mapping"),
        (("out/", [True]), "not of true or false"),
        (("out/", [1.5]), "not of a number with a fraction"),
        (([".graphmill/runs.db"],), "the journal's own folder"),
        ((".graphmill/runs.db",), "the journal's own folder"),
        (("a/", [".GraphMill"], "/x"), "the journal's own folder"),
        (("/elsewhere/.graphmill/x",), "the journal's own folder"),
    ],
)
def test_what_leads_elsewhere_or_nowhere_is_a_permanent_failure_that_names_the_param(pieces, why):
    with pytest.raises(Permanent, match=r"^file_path ") as caught:
        route(*pieces)
    assert why in str(caught.value)


def test_an_absolute_value_may_lead_to_where_the_author_allows_it():
    assert way(["/data/x/y"], allowed=["/data"])[:2] == ("/data", "x/y")
    with pytest.raises(Permanent, match="allow_paths"):
        route(["/database/x"], allowed=["/data"])


def test_a_long_path_is_shown_short_and_what_would_steer_a_terminal_is_escaped():
    with pytest.raises(Permanent) as caught:
        route(["\x1b[2J\u202e" + "x" * 10_000 + "\0"])
    assert len(str(caught.value)) < 400
    assert str(caught.value).isprintable()


_TEXT = st.text(st.sampled_from("./~a\0\n") | st.characters(), max_size=12)


@given(
    st.lists(
        st.one_of(_TEXT.map(lambda text: [text]), st.sampled_from(["/", "out/", ".", "-", "sub/x"])),
        min_size=1,
        max_size=5,
    )
)
def test_no_value_leads_out_of_the_root_whatever_it_is_and_wherever_it_stands(pieces):
    if pieces[0] == "/" or not any(isinstance(piece, list) for piece in pieces):
        return
    try:
        found = route(*pieces)
    except Permanent:
        return
    assert found.start.path == str(ROOT)
    assert [name for name in found.names if name in ("..", ".", "") or "/" in name or "\0" in name] == []
