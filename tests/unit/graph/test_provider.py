import re
import sys

import pytest

from graphmill.graph.provider import GROUP, ProviderRegistry

FINE = """
class Acme:
    name = "acme"
    default_address = address_variable = key_variable = ""
    supports_schema = False
    def open(self): ...
    async def complete(self): ...
    async def models(self): ...
    def classify(self): ...
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Give a function that puts a package where Python finds installed ones; what it imports is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)

    def put(package, code, entry="acme = {module}:Acme"):
        module = package.replace("-", "_")
        info = tmp_path / f"{module}-3.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 3.0\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{entry.format(module=module)}\n", encoding="utf-8")
        (tmp_path / f"{module}.py").write_text(code, encoding="utf-8")

    yield put
    for name in [name for name in sys.modules if name.startswith("acme_")]:
        del sys.modules[name]


def test_a_stranger_s_package_adds_a_provider_that_is_made_once(install):
    install("acme-models", FINE)
    registry = ProviderRegistry()
    assert "acme" in registry.names
    assert registry.find("acme").name == "acme"
    assert registry.find("acme") is registry.find("acme")


@pytest.mark.parametrize(("name", "near"), [("acne", " (did you mean 'acme'?)"), (None, ""), (["x"], "")])
def test_an_unknown_provider_is_refused_with_the_nearest_and_all_there_are(install, name, near):
    install("acme-models", FINE)
    registry = ProviderRegistry()
    with pytest.raises(ValueError, match="no provider") as caught:
        registry.find(name)
    assert str(caught.value) == f"no provider {name!r}{near}; there are {', '.join(registry.names)}"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "1 / 0",
            "the provider 'acme' of acme-models 3.0 (acme_models:Acme) can not be loaded: ZeroDivisionError: division by zero",
        ),
        (
            "class Acme:\n    def __init__(self): raise SystemExit(3)",
            "can not be loaded: SystemExit: 3; update or remove that package",
        ),
        (FINE.replace("supports_schema", "x").replace("def open", "def y"), "does not say its supports_schema, open"),
    ],
)
def test_a_package_at_fault_is_named(install, code, message):
    install("acme-models", code)
    with pytest.raises(ValueError, match=re.escape(message)):
        ProviderRegistry().find("acme")


def test_two_packages_of_one_name_are_refused(install):
    install("acme-models", FINE)
    install("acme-more", FINE)
    with pytest.raises(
        ValueError,
        match=r"the provider 'acme' is given by acme-mo.* and acme-mo.*; remove all but one of these packages",
    ):
        ProviderRegistry().find("acme")
