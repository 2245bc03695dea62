"""Settings: what a file may say, every mistake with its line, and which file counts."""

from pathlib import Path

import pytest

from graphmill.core.errors import UsageError
from graphmill.graph.models.models import Choices, Models
from graphmill.graph.models.settings import LIMITS, MODEL, PRICE, PROVIDER, SETTINGS, settings_here
from graphmill.graph.secrets import Secret


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "home" / "graphmill").mkdir(parents=True)
    (tmp_path / "project" / "below").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path / "project" / "below")
    return tmp_path


def written(folder, text, place="project/graphmill.yaml"):
    (folder / place).write_text(text)
    return settings_here()


def test_without_a_file_nothing_is_set():
    assert settings_here().files == ()


def test_a_whole_file_is_read(folder):
    found = written(
        folder,
        """
models:
  fast: openai/gpt-5-mini
  careful: {model: anthropic/claude, temperature: 0.2, stop: [a, b], extra: {k: 1}}
roles: {judge: careful}
providers:
  openai: {key: {env: MY_KEY}, headers: {X-A: b, X-B: {env: MY_HEADER}}}
  local: {protocol: openai, address: "http://127.0.0.1:1/v1", key: none, output_schema: prompt, limits: {concurrency: 3}}
  azure: {protocol: openai, address: "https://n.example/openai/deployments/n?api-version=2024-10-21"}
""",
    )
    assert found.models["fast"].model == "openai/gpt-5-mini"
    assert found.models["careful"].params == {"temperature": 0.2, "stop": ["a", "b"], "extra": {"k": 1}}
    assert found.roles["judge"].model == "careful"
    assert (found.providers["openai"].key, found.providers["openai"].headers) == (
        "MY_KEY",
        {"X-A": "b", "X-B": Secret("MY_HEADER")},
    )
    assert (
        found.providers["local"].protocol,
        found.providers["local"].key,
        found.providers["local"].output_schema,
    ) == (
        "openai",
        "",
        "prompt",
    )


def test_the_nearest_file_of_the_project_counts_before_the_person_s(folder):
    written(folder, "models: {a: x/person, b: x/person}", "home/graphmill/config.yaml")
    found = written(folder, "models: {a: x/project}")
    assert (found.models["a"].model, found.models["b"].model) == ("x/project", "x/person")
    assert written(folder, "models: {a: x/near}", "project/below/graphmill.yaml").models["a"].model == "x/near"


def test_a_file_that_changes_is_read_again(folder):
    written(folder, "models: {a: x/one}")
    assert written(folder, "models: {a: x/other}").models["a"].model == "x/other"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models:\n  a: gpt\n", ":2:6: models.a: model must be provider/model, got 'gpt'"),
        (
            "models: {a: {model: x/y, temprature: 1}}",
            ":1:26: models.a: unknown key 'temprature' (did you mean 'temperature'?)",
        ),
        ("models: {a: {temperature: 1}}", "models.a: 'model' is missing"),
        ("models: {a: {model: x/y, stop: [1]}}", "stop must be text or a list of texts"),
        ("models: {a: 3}", "models.a must be provider/model, or a mapping with model"),
        ("providers: {x: y}", "providers.x must be a mapping with protocol"),
        ("providers: {a/b: {}}", "the name must not contain /"),
        ("providers: {x: {address: ftp://h}}", "address must be http://… or https://…"),
        ("providers: {x: {address: 'http://me:word@h'}}", "address must not contain a user, password or key"),
        ("providers: {x: {address: 'http://h?key=planted'}}", "address must not contain a user, password or key"),
        ("providers: {x: {key: sk-planted}}", "key must be the name of an environment variable"),
        ("providers: {x: {headers: {a: 1}}}", "headers: 'a' must be one line of text, or {env: NAME}"),
        ("providers: {x: {limits: {requests: 1}}}", "providers.x.limits: unknown key 'requests'"),
        ("providers: {x: {limits: {concurrency: 0}}}", "concurrency must be an integer >= 1, got 0"),
        ("- a", "settings must be a mapping with models, roles, providers"),
        ("models: {a: [", "graphmill.yaml:2:1: while parsing"),
    ],
)
def test_mistakes_are_told_with_their_place_and_without_what_may_be_secret(folder, text, said):
    with pytest.raises(UsageError) as caught:
        written(folder, text)
    assert said in str(caught.value)
    assert "planted" not in str(caught.value)
    assert "word@" not in str(caught.value)


def test_a_provider_of_another_name_than_its_protocol_s_is_never_sent_that_one_s_key(folder, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "planted")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere/v1")
    written(
        folder, "providers: {local: {protocol: openai, address: 'http://127.0.0.1:1/v1'}, bare: {protocol: openai}}"
    )
    models = Models.here()
    assert (models.named("local/m").access().key, models.named("local/m").access().address) == (
        None,
        "http://127.0.0.1:1/v1",
    )
    assert models.named("bare/m").access().address == "https://api.openai.com/v1"
    own = models.named("openai/m").access()
    assert (own.key, own.address) == ("planted", "http://elsewhere/v1")


@pytest.mark.parametrize(
    ("settings", "lacking"),
    [
        ("", ["OPENAI_API_KEY"]),
        ("providers: {openai: {address: 'http://127.0.0.1:1'}}", []),
        ("providers: {openai: {key: OTHER}}", ["OTHER"]),
        ("providers: {openai: {key: none, headers: {X: {env: TEAM}}}}", ["TEAM"]),
        ("providers: {openai: {address: {env: PLACE}}}", ["PLACE"]),
    ],
)
def test_what_must_be_set_and_is_not_is_named(folder, settings, lacking):
    written(folder, settings)
    assert Models.here().named("openai/m").lacking() == lacking


def test_choices_are_read_and_written_back():
    found = Choices.of(["openai/a=b", "judge=local/c"], temperature=0.5)
    assert (found.model, found.roles, found.params) == ("openai/a=b", {"judge": "local/c"}, {"temperature": 0.5})
    assert Choices.from_json(found.to_json()) == found
    assert Choices().to_json() == {}


def test_every_key_is_documented():
    text = (Path(__file__).parents[4] / "docs" / "models.md").read_text()
    keys = {key for block in (SETTINGS, MODEL, PROVIDER, LIMITS, PRICE) for key in block}
    assert [key for key in sorted(keys) if f"`{key}`" not in text] == []
