from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphmill.core.errors import Permanent
from graphmill.graph.node_params import Filled
from graphmill.nodes.http.url import target_of, whole_url

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(texts, texts)
@example("/", "?")
@example("#", "&a=b")
@example("%2F", "%26")
@example("..", "a")
def test_values_behind_the_host_are_data_whatever_they_are(first, second):
    target = target_of(
        [
            "https://example.org/a/",
            Filled(first),
            "-/b/x",
            Filled(second),
            "?q=",
            Filled(second),
            "&r=",
            Filled(first),
            "#f",
            Filled("f"),
        ]
    )
    path = target.url.path.split("/")
    assert [unquote(part, errors="strict") for part in path] == ["", "a", f"{first}-", "b", f"x{second}"]
    assert parse_qsl(target.url.query, keep_blank_values=True) == [("q", second), ("r", first)]
    assert (target.url.origin, target.is_host_written) == (("https", "example.org", 443), True)
    assert str(target.url).isascii()
    assert target_of([str(target.url)]).url == target.url


@given(texts)
@example("@evil.org")
@example("evil.org/")
@example("evil.org#")
@example("a\\b")
def test_a_value_in_the_host_part_stays_there(value):
    try:
        target = target_of(["http://a.", Filled(value), ".example.org/x"])
    except Permanent:
        return
    assert not target.is_host_written
    assert target.url.host.endswith(".example.org") or ":" in value
    assert (target.url.path, target.url.query) == ("/x", "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("HTTPS://Example.ORG", "https://example.org/"),
        ("http://example.org:80/a?b=c&d&=e#f", "http://example.org/a?b=…&…&=…"),
        ("http://example.org:8080?x", "http://example.org:8080/?…"),
        ("http://[0:0::1]:80/", "http://[::1]/"),
        ("http://bücher.example/ä", "http://xn--bcher-kva.example/%C3%A4"),
        ("http://example.org./x", "http://example.org./x"),
        ("http://a/b%zz c", "http://a/b%zz%20c"),
    ],
)
def test_a_url_is_shown_without_the_values_of_its_query(text, shown):
    assert whole_url(text).shown == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "http",
        "http:/a",
        "http://",
        "http:///a",
        "//a/b",
        "javascript:x",
        "http://a b/",
        "http://a:b/",
        "http://a:0/",
        "http://[::1",
        "http://[::1%25lo]/",
        "http://-a/",
        "http://a..-/",
        "http://a%2eb/",
        "http://a\x00b/",
        "http://a\nb/",
        "http://․/",
        "http://xn--�/",
    ],
)
def test_what_is_no_url_is_refused(text):
    with pytest.raises(Permanent):
        whole_url(text)


@pytest.mark.parametrize("text", ["http://me:hunter2@a/", "me:hunter2@a", "http://@a/", "http:/a?hunter2"])
def test_a_refusal_does_not_repeat_what_may_be_a_secret(text):
    with pytest.raises(Permanent) as caught:
        whole_url(text)
    assert "hunter2" not in str(caught.value)


def test_a_template_at_the_beginning_may_hold_host_path_and_query_and_what_follows_is_data():
    target = target_of([Filled("http://a/b?c=d"), "&e=", Filled("&f=g")])
    assert (target.url.path, target.url.query, target.is_host_written) == ("/b", "c=d&e=%26f%3Dg", False)


@pytest.mark.parametrize(
    "pieces", [[Filled("http://a"), Filled("/b")], [Filled(""), "/b"], [Filled("a"), "/b"], ["http://", Filled("a/b")]]
)
def test_a_host_part_that_can_not_be_one_is_refused(pieces):
    with pytest.raises(Permanent):
        target_of(pieces)
