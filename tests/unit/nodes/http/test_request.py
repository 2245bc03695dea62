from ipaddress import IPv4Address, IPv6Address, IPv6Network
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphmill.core.errors import Permanent
from graphmill.graph.node_params import Filled
from graphmill.nodes.http.request import build_url, is_allowed, is_public, is_valid_entry, parse_url

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "100.63.255.255",
    "172.32.0.1",
    "192.0.1.1",
    "223.255.255.255",
    "2606:4700::1111",
    "2a00::1",
    "2001:4860::8888",
]
CLOSED = [
    "0.1.2.3",
    "10.255.0.1",
    "100.64.0.1",
    "127.255.255.255",
    "169.254.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.168.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.251",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
    "::",
    "::1",
    "::7f00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:808:808::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00::1",
    "fe80::1",
    "fe80::1%lo",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_of_the_internet_is_public_in_each_of_its_forms(address):
    assert is_public(address)
    if ":" not in address:
        assert is_public(f"::ffff:{address}")
        assert is_public(f"64:ff9b::{address}")


@pytest.mark.parametrize("address", CLOSED)
def test_all_other_addresses_are_not_in_any_form(address):
    assert not is_public(address)
    if ":" not in address:
        assert not is_public(f"::ffff:{address}")
        assert not is_public(f"64:ff9b::{address}")
        assert not is_public(f"::{address}")


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_what_the_standard_library_calls_local_is_never_public(address):
    found = address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
    if found.version == 6 and found in IPv6Network(
        "64:ff9b::/96"
    ):  # which leads to an address of IPv4, and is as public as that
        found = IPv4Address(int(found) & 0xFFFFFFFF)
    is_local = (
        found.is_private
        or found.is_loopback
        or found.is_link_local
        or found.is_multicast
        or found.is_unspecified
        or found.is_reserved
    )
    if is_local and found not in (IPv4Address("192.0.0.9"), IPv4Address("192.0.0.10")):
        assert not is_public(str(address))


@pytest.mark.parametrize(
    ("url", "entry", "fits"),
    [
        ("http://a.example.org/", "a.example.org", True),
        ("http://a.example.org:81/", "A.example.org", True),
        ("http://a.example.org:81/", "a.example.org:81", True),
        ("http://a.example.org:81/", "a.example.org:80", False),
        ("https://a.example.org/", "a.example.org:443", True),
        ("http://a.example.org/", "*.example.org", True),
        ("http://a.b.example.org/", "*.example.org", True),
        ("http://example.org/", "*.example.org", False),
        ("http://evilexample.org/", "*.example.org", False),
        ("http://a.example.org.evil.org/", "*.example.org", False),
        ("http://example.org/", "*", True),
        ("http://example.org/", "*:81", False),
        ("http://[::1]/", "::1", True),
        ("http://[::1]:81/", "[0::1]:81", True),
        ("http://[::1]:82/", "[::1]:81", False),
        ("http://127.0.0.1/", "127.0.0.1", True),
        ("http://127.0.0.1/", "localhost", False),
    ],
)
def test_an_author_allows_hosts_by_name_below_a_name_and_by_port(url, entry, fits):
    assert is_valid_entry(entry)
    assert is_allowed(parse_url(url), ["other.example", entry]) is fits


@pytest.mark.parametrize(
    "entry", ["", "http://a", "a/b", "10.0.0.0/8", "*.", "a*", "**", "a b", "a:b", "${x}", "*a.org", "[::1"]
)
def test_what_names_no_host_can_not_be_allowed(entry):
    assert not is_valid_entry(entry)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(texts, texts)
@example("/", "?")
@example("#", "&a=b")
@example("%2F", "%26")
@example("..", "a")
def test_values_behind_the_host_are_data_whatever_they_are(first, second):
    target = build_url(
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
    assert build_url([str(target.url)]).url == target.url


@given(texts)
@example("@evil.org")
@example("evil.org/")
@example("evil.org#")
@example("a\\b")
def test_a_value_in_the_host_part_stays_there(value):
    try:
        target = build_url(["http://a.", Filled(value), ".example.org/x"])
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
    assert parse_url(text).redacted == shown


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
        parse_url(text)


@pytest.mark.parametrize("text", ["http://me:hunter2@a/", "me:hunter2@a", "http://@a/", "http:/a?hunter2"])
def test_a_refusal_does_not_repeat_what_may_be_a_secret(text):
    with pytest.raises(Permanent) as caught:
        parse_url(text)
    assert "hunter2" not in str(caught.value)


def test_a_template_at_the_beginning_may_hold_host_path_and_query_and_what_follows_is_data():
    target = build_url([Filled("http://a/b?c=d"), "&e=", Filled("&f=g")])
    assert (target.url.path, target.url.query, target.is_host_written) == ("/b", "c=d&e=%26f%3Dg", False)


@pytest.mark.parametrize(
    "pieces", [[Filled("http://a"), Filled("/b")], [Filled(""), "/b"], [Filled("a"), "/b"], ["http://", Filled("a/b")]]
)
def test_a_host_part_that_can_not_be_one_is_refused(pieces):
    with pytest.raises(Permanent):
        build_url(pieces)
