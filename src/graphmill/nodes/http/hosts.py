"""Which hosts a request may reach that its author did not write: public addresses, and what is allowed by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from graphmill.nodes.http.url import Url

_ENTRY = re.compile(
    r"(?P<host>\*|(?:\*\.)?[a-z0-9_][a-z0-9_.-]*|\[[0-9a-f:.]+\]|[0-9a-f]*:[0-9a-f:.]*:[0-9a-f:.]*)(?::(?P<port>[0-9]{1,5}))?"
)
_NAT64 = IPv6Network("64:ff9b::/96")
_CLOSED = (
    ip_network("::/96"),  # IPv4 in an old form
    ip_network("64:ff9b:1::/48"),  # a network's own translation
    ip_network("2001::/23"),  # protocols, with Teredo
    ip_network("fec0::/10"),
    ip_network("192.88.99.0/24"),
    ip_network("168.63.129.16/32"),  # metadata of a cloud, at a public address
)


@lru_cache(maxsize=1024)
def is_public(address: str) -> bool:
    """Tell whether an address, as it is connected to, belongs to the internet at large."""
    found = _within(ip_address(address.partition("%")[0]))
    if found.is_multicast or not found.is_global:
        return False
    return not any(found.version == network.version and found in network for network in _CLOSED)


def _within(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Give the IPv4 address that an IPv6 one leads to, where it does."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def is_allowed(url: Url, allowed: Sequence[str]) -> bool:
    """Tell whether the author allows a host: ``name``, ``*.name`` for all below it, ``*`` for all; with ``:port`` for that port only."""
    return any(_fits(url, entry) for entry in allowed)


def is_entry(text: str) -> bool:
    """Tell whether a text can stand in ``allow_hosts``."""
    return _ENTRY.fullmatch(text.lower()) is not None


def _fits(url: Url, entry: str) -> bool:
    found = _ENTRY.fullmatch(entry.lower())
    if found is None or found["port"] not in (None, str(url.port)):
        return False
    name, host = found["host"].strip("[]").rstrip("."), url.host.rstrip(".")
    return name in ("*", host) or (name.startswith("*.") and host.endswith(name[1:])) or _is_same_address(name, host)


def _is_same_address(name: str, host: str) -> bool:
    try:
        return ip_address(name) == ip_address(host)
    except ValueError:
        return False
