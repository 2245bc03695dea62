"""What the page about models says of providers is true of them."""

import re
from pathlib import Path

import msgspec
import pytest

from graphmill.core.yaml import from_yaml
from graphmill.graph.registry import find_provider
from graphmill.providers.scripted.script import FAULTS, Script

PAGE = (Path(__file__).parents[3] / "docs" / "models.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["openai", "anthropic", "gemini"])
def test_a_provider_s_row_has_its_address_and_variables(name):
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
    provider = find_provider(name)
    assert re.findall(r"`([^`]+)`", row) == [
        name,
        provider.default_address,
        provider.address_variable,
        provider.key_variable,
    ]


def test_every_fault_of_a_script_is_told_and_no_other():
    table = PAGE.partition("| fault | as if |")[2].partition("\n\n")[0]
    named = [word for line in table.splitlines()[2:] for word in re.findall(r"`([a-z_]+)`", line.split("|")[1])]
    assert sorted(named) == sorted(FAULTS)


def test_the_script_on_the_page_is_one():
    (example,) = re.findall(r"```yaml\n(# rehearsal.*?)```", PAGE, re.DOTALL)
    script = msgspec.convert(from_yaml(example.encode()), Script)
    assert (len(script.rules), script.throttle.per_minute, script.latency.knee) == (4, 500, 24)
    assert {rule.fault for rule in script.rules} - {None} <= set(FAULTS)
