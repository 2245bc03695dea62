"""Models that run on this machine: a real one, in a server process of its own."""

import asyncio
import json
import os
import signal
import sys

import psutil
import pytest

import graphmill as gm
from support import local_model
from support.command import Command, rows, run, write_items

PYTHON = [sys.executable, "-c"]
SCHEMA = {
    "type": "object",
    "properties": {
        "order": {"type": "integer"},
        "name": {"type": "string", "maxLength": 20},
        "sure": {"type": "number", "minimum": 0.5, "maximum": 1},
    },
    "required": ["order", "name", "sure"],
    "additionalProperties": False,
}
YES_OR_NO = {
    "type": "object",
    "properties": {"answer": {"enum": ["yes", "no"]}},
    "required": ["answer"],
    "additionalProperties": False,
}
PROMPT = "Which order, and who? ${text}"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with three items and a schema, where a model's file is a model called ``tiny``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graphmill.yaml").write_text(f"models: {{tiny: {{model: local/{local_model.model_file()}}}}}\n")
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    write_items(
        tmp_path, [{"id": name, "text": f"Order {n} for {name}."} for n, name in enumerate(("Ann", "Bo", "Cy"))]
    )
    return tmp_path


def fits(answer):
    is_typed = isinstance(answer["order"], int) and isinstance(answer["name"], str)
    return set(answer) == {"order", "name", "sure"} and is_typed and 0.5 <= answer["sure"] <= 1


def test_a_batch_is_answered_by_a_model_on_this_machine_in_the_shape_of_a_schema(project):
    arguments = ["batch", "--prompt", PROMPT, "--schema", "schema.json", "--model", f"local/{local_model.NAME}"]
    code, _, err = run(
        project, *arguments, "--max-tokens", "60", "--temperature", "0", "-s", "items.jsonl", "-o", "out.jsonl"
    )
    assert code == 0, err
    found = rows(project / "out.jsonl")
    assert [row["status"] for row in found] == ["succeeded"] * 3
    assert all(fits(row["output"]["response"]) for row in found)
    assert all(row["usage"]["requests"] == 1 and row["cost_usd"] == 0 for row in found)  # no answer was asked for again
    assert "price" not in err


@pytest.mark.parametrize("signalled", [signal.SIGKILL, signal.SIGINT])
def test_the_server_ends_with_its_run_however_that_ends(project, signalled):
    arguments = ["batch", "--prompt", "Count to a million. ${text}", "--model", "tiny", "-s", "items.jsonl"]
    with Command(project, *arguments) as command:
        command.until(lambda: local_model.servers(command.process.pid))
        (server,) = local_model.servers(command.process.pid)
        command.process.send_signal(signalled)
        if signalled == signal.SIGINT:
            command.process.send_signal(signalled)
        psutil.wait_procs([server], timeout=60)
        assert not server.is_running()
        command.wait()


def test_a_crash_of_the_server_loses_no_item_and_two_runs_at_once_have_servers_of_their_own(project):
    both_ready, ports_of, killed = asyncio.Barrier(2), [], set()

    async def ask(row):
        first = await gm.complete("tiny", row["text"], schema=YES_OR_NO)
        if row["id"] == "Ann" and len(ports_of) < 2:  # once in each run, also if the item is attempted again
            await both_ready.wait()
            running = local_model.servers(os.getpid())
            ports_of.append([listening_port(each) for each in running])
            await both_ready.wait()
            for each in running:
                each.kill()
            killed.update(running)
        again = await gm.complete("tiny", f"{row['text']} Really?", schema=YES_OR_NO)
        return {"first": first["answer"], "again": again["answer"]}

    async def run_two():
        items = [{"id": "Ann", "text": "Is it cold?"}, {"id": "Bo", "text": "Is it warm?"}]
        policy = gm.Policy(retry=gm.Retry(attempts=6, wait_s=0.1), concurrency=2)
        async with asyncio.TaskGroup() as group:
            runs = [group.create_task(gm.abatch(ask, items, policy=policy, journal=None)) for _ in range(2)]
        return [task.result() for task in runs]

    reports = asyncio.run(run_two())
    assert [report.summary().split()[0] for report in reports] == ["2/2", "2/2"]
    assert len(killed) == 2
    assert all(len(set(found)) == 2 for found in ports_of)
    assert local_model.servers(os.getpid()) == []


def listening_port(process):
    (port,) = {each.laddr.port for each in process.net_connections(kind="tcp") if each.status == psutil.CONN_LISTEN}
    return port


def test_settings_name_a_model_file_beside_them(project):
    (project / "own.gguf").symlink_to(local_model.model_file())
    (project / "graphmill.yaml").write_text("providers: {mine: {protocol: local, address: own.gguf}}\n")
    code, out, _ = run(project, "models", "mine/any", "--test", "--json")
    found = json.loads(out)["test"]
    assert (code, found["model"], found["problem"]) == (0, "any", "")
    assert found["tokens"] > 0


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("local/smollm2-135m", ["smollm2-135m is not downloaded", "graphmill models pull smollm2-135m"]),
        ("local/smolm2-135m", ["no model", "did you mean 'smollm2-135m'"]),
        ("local/own/repo/some.gguf", ["graphmill models pull own/repo/some.gguf"]),
        ("local//no/such.gguf", ["no model file /no/such.gguf"]),
        ("local/./schema.gguf", ["schema.gguf is not a GGUF file"]),
    ],
)
def test_a_model_that_is_not_there_is_reported_before_anything_runs(tmp_path, model, said):
    (tmp_path / "schema.gguf").write_text("{}")
    write_items(tmp_path, [{"text": "tea"}])
    code, out, err = run(
        tmp_path, "batch", "--prompt", "${text}", "--model", model, "-s", "items.jsonl", XDG_CACHE_HOME=str(tmp_path)
    )
    assert (code, out) == (2, "")
    assert [part for part in said if part not in err] == []


def test_without_llama_cpp_a_run_says_what_to_install(tmp_path):
    write_items(tmp_path, [{"text": "tea"}])
    lacking = [*PYTHON, "import sys; sys.modules['xllamacpp'] = None; from graphmill.cli.main import main; main()"]
    arguments = ["batch", "--prompt", "${text}", "--model", "local/smollm2-135m", "-s", "items.jsonl"]
    code, _, err = run(tmp_path, *arguments, argv=lacking)
    assert code == 2
    assert "pip install 'graphmill[local]'" in err


def test_a_file_that_llama_cpp_cannot_load_is_reported_with_its_words(tmp_path):
    (tmp_path / "cut.gguf").write_bytes(b"GGUF" + bytes(100))
    code, out, _ = run(tmp_path, "models", f"local/{tmp_path / 'cut.gguf'}", "--test", "--json")
    assert code == 69
    assert "cannot load" in (problem := json.loads(out)["test"]["problem"])
    assert "cut.gguf" in problem
