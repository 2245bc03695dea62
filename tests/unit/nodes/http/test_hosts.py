from ipaddress import IPv4Address, IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.nodes.http.hosts import is_allowed, is_entry, is_public
from graphmill.nodes.http.url import whole_url

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
    assert is_entry(entry)
    assert is_allowed(whole_url(url), ["other.example", entry]) is fits


@pytest.mark.parametrize(
    "entry", ["", "http://a", "a/b", "10.0.0.0/8", "*.", "a*", "**", "a b", "a:b", "${x}", "*a.org", "[::1"]
)
def test_what_names_no_host_can_not_be_allowed(entry):
    assert not is_entry(entry)
