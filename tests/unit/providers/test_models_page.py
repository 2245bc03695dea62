"""What the page about models says of providers is true of them."""

import re
from pathlib import Path

import pytest

from graphmill.graph.registry import find_provider
from graphmill.providers.scripted.script import FAULTS, RULE, read_script

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "models.md").read_text(encoding="utf-8")
REHEARSAL = (DOCS / "rehearsal.md").read_text(encoding="utf-8")


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
    table = REHEARSAL.partition("| fault | as if |")[2].partition("\n\n")[0]
    named = [word for line in table.splitlines()[2:] for word in re.findall(r"`([a-z_]+)`", line.split("|")[1])]
    assert sorted(named) == sorted(FAULTS)


def test_every_key_of_a_rule_is_told_and_no_other():
    tables = re.findall(r"\| key \| (?:matches|sets) \|\n(.*?)\n\n", REHEARSAL, re.DOTALL)
    named = [word for line in "\n".join(tables).splitlines() for word in re.findall(r"`([a-z_]+)`", line.split("|")[1])]
    assert sorted(named) == sorted(RULE)


def test_the_scripts_on_the_page_are_some(tmp_path):
    skilled, server = [tmp_path / name for name in ("rules.yaml", "rehearsal.yaml")]
    for path in (skilled, server):
        (example,) = re.findall(rf"```yaml\n(# {path.name}.*?)```", REHEARSAL, re.DOTALL)
        path.write_text(example)
    assert len(read_script(str(skilled)).rules) == 7
    script = read_script(str(server))
    assert (len(script.rules), script.throttle.per_minute, script.latency.knee) == (4, 500, 24)
