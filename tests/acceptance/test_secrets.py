"""Secrets of models: planted in environment, header, address, error or exception, they are stored nowhere; no prompts in logs."""

import contextlib
import os
import subprocess
from functools import partial

import psutil
import pytest

import graphmill as gm
from support import warm
from support.asked_model import answer
from support.command import COMMAND, HANG_S, IMPATIENT, PROMPT_BATCH, environment, rows, write_items
from support.model_apis import APIS, changed
from support.model_server import ModelServer, reply, reset_after
from support.remains import wait_until

KEY, HEADER, PLACE = "sk-planted-0123456789abcdef", "hdr-planted-fedcba9876543210", "url-planted-aaaabbbbccccdddd"
PROMPT = "Who has planted the marigolds beside the lighthouse?"

# With all that anybody may switch on: every log, of every library, and every span.
WATCHED = """
import logging
logging.basicConfig(filename="debug.log", level=logging.DEBUG)
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=open("spans.json", "a", buffering=1))))
trace.set_tracer_provider(provider)
"""


class Project:
    """A folder whose model is a server of ours, asked with secrets in hand; it is looked at while the server is asked, too."""

    def __init__(self, folder, server, protocol):
        self.folder = folder
        self.server = server
        self.api = APIS[protocol]
        self.protocol = protocol
        self.seen = []
        self.planted = {
            "PLANTED_KEY": KEY,
            "PLANTED_HEADER": HEADER,
            "PLANTED_PLACE": f"{server.url}/{PLACE}/v1?code={PLACE}",
        }
        setting = "address: {env: PLANTED_PLACE}, key: PLANTED_KEY, headers: {X-Team: {env: PLANTED_HEADER}}"
        (folder / "graphmill.yaml").write_text(f"providers: {{own: {{protocol: {protocol}, {setting}}}}}")
        write_items(folder, [{"id": "a", "text": PROMPT}, {"id": "b", "text": PROMPT}])

    def answers(self, make):
        def answered(asked):
            self.seen += [*holding(self.folder), *visible()]
            return make(self, asked)

        self.server.answer = answered

    def command(self, *arguments, **env):
        argv = [*IMPATIENT[:2], WATCHED + IMPATIENT[2], *arguments]
        more = {**self.planted, **env}
        done = warm.run(argv, capture_output=True, timeout=HANG_S, cwd=self.folder, env=environment(**more))
        with (self.folder / f"{arguments[0]}.said").open("ab") as file:
            file.write(done.stdout + done.stderr)
        return done.returncode

    def batch(self, **env):
        asking = [*PROMPT_BATCH, "-o", "out.jsonl", "--run-id", "r"]
        return self.command(*asking, "--retries", "1", "--concurrency", "1", **env)

    def look_everywhere(self):
        for arguments in (
            ("show", "r", "a"),
            ("errors", "r"),
            ("status", "r"),
            ("export", "r", "exported.jsonl"),
            ("models", "--check"),
        ):
            self.command(*arguments)


def holding(folder):
    """List the files that hold a secret, or enough of one to be of use."""
    parts = [part.encode() for text in (KEY, HEADER, PLACE) for part in (text[:14], text[-10:])]
    return [
        path.name for path in folder.rglob("*") if path.is_file() and any(part in path.read_bytes() for part in parts)
    ]


def visible():
    """List what every user of the machine can see of processes that holds a secret."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or ())
        found += [words[:80] for text in (KEY, HEADER, PLACE) if text in words]
    return found


@pytest.fixture
def project(tmp_path):
    with ModelServer() as server:
        yield partial(Project, tmp_path, server)


def repeating(error, project, asked):
    """Answer with an error that repeats all that was sent."""
    status, said = project.api.errors[error]
    return reply(changed(said, "error", "message", to=f"{asked.target} {asked.headers} {asked.body.decode()}"), status)


def page(project, asked):
    return reply(f"<html>{asked.target} {asked.headers}</html>".encode(), kind="text/html")


def in_the_answer(project, asked):
    return reply(changed(project.api.error_in_answer, "error", "message", to=f"{asked.target} {asked.headers}"))


def moved(project, asked):
    return reply(b"", 302, headers={"Location": f"http://127.0.0.1:9/{PLACE}?key={KEY}"})


ANSWERS = {
    "fine": (lambda project, asked: reply(project.api.answer), 0),
    "permanent": (partial(repeating, "too_long"), 3),
    "transient": (partial(repeating, "server_error"), 3),
    "refused": (partial(repeating, "key_refused"), 5),
    "web page": (page, 5),
    "error in the answer": (in_the_answer, 3),
    "moved": (moved, 5),
    "broken head": (lambda project, asked: f"HTTP/1.1 {asked.headers}\r\n\r\n".encode(), 3),
    "reset": (lambda project, asked: reset_after(f"HTTP/1.1 200 {KEY}\r\n{HEADER}".encode()), 3),
}


@pytest.mark.parametrize("answered", ANSWERS)
@pytest.mark.parametrize("protocol", APIS)
def test_a_secret_in_environment_header_address_and_error_is_left_nowhere(project, tmp_path, protocol, answered):
    here, (make, code) = project(protocol), ANSWERS[answered]
    here.answers(make)
    assert here.batch(OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true") == code, (
        tmp_path / "batch.said"
    ).read_text()
    first = here.server.asked[0]
    assert (KEY in first.headers[here.api.key_header], HEADER in str(first.headers), first.target.count(PLACE)) == (
        True,
        True,
        2,
    )
    if answered in ("permanent", "refused"):
        here.look_everywhere()
    assert holding(tmp_path) == []
    assert here.seen == []
    assert '"chat m"' in (tmp_path / "spans.json").read_text()
    assert (tmp_path / ".graphmill" / "runs.db").exists()


@pytest.mark.parametrize("protocol", APIS)
@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("http://127.0.0.1:9/{}/v1?code={}", 5),
        ("http://user:{}@127.0.0.1:9/{}", 5),
        ("ftp://{}/{}", 2),
        ("http://[{}]:x/{}", 5),
    ],
)
def test_an_address_that_leads_nowhere_is_told_without_its_secret(project, tmp_path, protocol, place, code):
    here = project(protocol)
    here.planted["PLANTED_PLACE"] = place.format(PLACE, PLACE)
    assert here.batch() == code, (tmp_path / "batch.said").read_text()
    assert holding(tmp_path) == []


@pytest.mark.parametrize("answered", ["fine", "too_long", "key_refused"])
@pytest.mark.parametrize("protocol", APIS)
def test_prompts_and_answers_are_in_no_log_and_no_span(project, tmp_path, protocol, answered):
    here = project(protocol)
    status, said = here.api.errors.get(answered, (200, here.api.answer))
    here.answers(lambda project, asked: reply(said, status))
    here.batch()
    here.command("resume", "r")
    said = "".join((tmp_path / name).read_text() for name in ("debug.log", "spans.json", "batch.said", "resume.said"))
    assert '"chat m"' in said
    assert [word for word in ("marigolds", "lighthouse", "Paris") if word in said] == []


SHELL = """
inputs: {n: {}}
nodes:
  - {id: token, type: value, params: {key: {env: PLANTED_KEY}}}
  - id: s
    type: shell
    params:
      command: 'cat gate; printf "%s" "$TOKEN$1" ${token.key} | wc -c'
      args: ["${token.key}"]
      env: {TOKEN: {env: PLANTED_KEY}}
"""


def words_of_processes_under(pid):
    words = []
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended, or is just ending
            words += process.cmdline()
    return words


def test_no_secret_is_among_the_words_of_a_process_that_a_shell_node_starts(tmp_path):
    (tmp_path / "w.yaml").write_text(SHELL)
    write_items(tmp_path, [{"id": "a", "n": 1}])
    argv = [*COMMAND, "batch", "w.yaml", "-s", "items.jsonl", "-o", "out.jsonl"]
    os.mkfifo(tmp_path / "gate")
    with subprocess.Popen(
        argv, cwd=tmp_path, env=environment(PLANTED_KEY=KEY), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as run:
        wait_until(lambda: run.poll() is not None or "gate" in words_of_processes_under(run.pid))
        words = words_of_processes_under(run.pid)
        assert "gate" in words, run.stdout.read()
        (tmp_path / "gate").write_text("")
        said = run.communicate(timeout=HANG_S)[0]
    assert (run.returncode, [word for word in words if KEY in word]) == (0, []), said
    assert rows(tmp_path / "out.jsonl")[0]["output"]["stdout"].strip() == str(3 * len(KEY))
    assert holding(tmp_path) == []


def test_a_secret_in_an_exception_is_left_nowhere(played, monkeypatch, tmp_path):
    monkeypatch.setenv("PLANTED_KEY", KEY)
    played.settings("", provider=", key: {env: PLANTED_KEY}")

    def raising(_):
        try:
            raise OSError(f"can not use {KEY}")
        except OSError as error:
            raise TypeError(f"with {KEY} in {{'key': '{KEY}'}}") from error

    played.by = raising
    events = []
    result = played.run({"prompt": "x"}, run_id="r", journal=tmp_path / "runs.db", observers=[events.append])
    assert result.is_failure
    assert "{env: PLANTED_KEY}" in result.error.message
    assert "planted-01" not in repr(result) + repr(events)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()] == []


def test_a_secret_in_an_answer_of_the_wrong_shape_is_left_nowhere(played, monkeypatch, tmp_path):
    monkeypatch.setenv("PLANTED_KEY", KEY)
    played.settings("", provider=", key: {env: PLANTED_KEY}")
    played.answers = ["x" * 1985 + f" {KEY}", f"not {KEY} but", "x" * 1985 + f" {KEY}"]
    result = played.run({"prompt": "x", "output_schema": {"type": "integer"}}, run_id="r", journal=tmp_path / "runs.db")
    assert result.error.answer == "x" * 1985 + " {env: PLANTED…"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and b"sk-planted" in path.read_bytes()] == []


def test_a_secret_in_an_exception_of_a_function_s_call_is_left_nowhere(played, monkeypatch, tmp_path):
    monkeypatch.setenv("PLANTED_KEY", KEY)
    played.settings("", provider=", key: {env: PLANTED_KEY}")

    async def work(_):
        return (await gm.complete("scripted/play", "x")).text

    played.answers = [gm.Transient(f"with {KEY}"), ValueError(KEY), answer("fine")]
    (result,) = gm.batch(
        work, [1], run_id="r", journal=tmp_path / "runs.db", policy=gm.Policy(retry=gm.Retry(wait_s=0, cap_s=0))
    ).results()
    assert result.output == "fine"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()] == []
