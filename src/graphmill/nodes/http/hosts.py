"""Which hosts a request may reach that its author did not write: public addresses, and what is allowed by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from graphmill.nodes.http.url import Url

_ENTRY = re.compile(
    r"(?P<host>\*|(?:\*\.)?[a-z0-9_][a-z0-9_.-]*|\[[0-9a-f:.]+\]|[0-9a-f]*:[0-9a-f:.]*:[0-9a-f:.]*)(?::(?P<port>[0-9]{1,5}))?"
)
_NAT64 = IPv6Network("64:ff9b::/96")
_OPEN_V6 = IPv6Network("2000::/3")
_CLOSED_V6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_CLOSED_V4 = tuple(
    map(
        IPv4Network,
        (
            *(
                "0.0.0.0/8",
                "10.0.0.0/8",
                "100.64.0.0/10",
                "127.0.0.0/8",
                "169.254.0.0/16",
                "172.16.0.0/12",
                "192.0.0.0/24",
            ),
            *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
            *("224.0.0.0/4", "240.0.0.0/4"),
            "168.63.129.16/32",  # metadata of a cloud, although it looks public
        ),
    )
)


@lru_cache(maxsize=1024)
def is_public(address: str) -> bool:
    """Tell whether an address, as it is connected to, belongs to the internet at large.

    By lists of our own: what the standard library calls global differs from version to version.
    """
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        inner = IPv4Address(int(found) & 0xFFFFFFFF) if found in _NAT64 else found.ipv4_mapped
        if inner is None:
            return found in _OPEN_V6 and not any(found in network for network in _CLOSED_V6)
        found = inner
    return not any(found in network for network in _CLOSED_V4)


def is_allowed(url: Url, allowed: Sequence[str]) -> bool:
    """Tell whether the author allows a host: ``name``, ``*.name`` for all below it, ``*`` for all; with ``:port`` for that port only."""
    return any(_fits(url, entry) for entry in allowed)


def is_entry(text: str) -> bool:
    """Tell whether a text can stand in ``allow_hosts``."""
    return _ENTRY.fullmatch(text.lower()) is not None


def _fits(url: Url, entry: str) -> bool:
    name, port = _split(entry)
    if port not in (None, str(url.port)):
        return False
    host = url.host.rstrip(".")
    return name in ("*", host) or (name.startswith("*.") and host.endswith(name[1:])) or _is_same_address(name, host)


@lru_cache(maxsize=256)
def _split(entry: str) -> tuple[str, str | None]:
    found = _ENTRY.fullmatch(entry.lower())
    return (found["host"].strip("[]").rstrip("."), found["port"]) if found else ("", None)


def _is_same_address(name: str, host: str) -> bool:
    try:
        return ip_address(name) == ip_address(host)
    except ValueError:
        return False
