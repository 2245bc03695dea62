"""A Hugging Face hub on this machine: serves the datasets in a folder, and says what was asked of it, byte by byte."""

import hashlib
import json
import re
from contextlib import contextmanager
from urllib.parse import unquote

from huggingface_hub import constants

from support.http_server import Server, reply

REVISION = "a3" * 20
_DATASET = r"/api/datasets/(?P<name>[^/]+/[^/]+)"


class FakeHub:
    """``folder/org/name/…`` are the files of dataset org/name at ``revision``; ``gated`` and ``gone`` are names."""

    def __init__(self, folder):
        self.folder = folder
        self.revision = REVISION
        self.gated = set()
        self.bodies = []  # of files: name, and how many bytes were sent

    def add(self, name, files):
        """Put a dataset there: contents by file name."""
        for file, content in files.items():
            path = self.folder / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def answer(self, seen):
        made = self._answer(seen)
        return made.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if seen.method == "HEAD" else made

    def _answer(self, seen):
        path = unquote(seen.path)
        for pattern, answer in (
            (rf"{_DATASET}(/revision/(?P<revision>.+))?", self._about),
            (rf"{_DATASET}/tree/(?P<revision>[^/]+)(/(?P<inside>.*))?", self._tree),
            (rf"{_DATASET}/paths-info/(?P<revision>[^/]+)", self._paths),
            (r"/datasets/(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)", self._file),
        ):
            if (found := re.fullmatch(pattern, path)) is not None:
                return self._checked(seen, answer, **found.groupdict())
        return self._refusal(404, "EntryNotFound")

    def _checked(self, seen, answer, name, revision, **more):
        if not (self.folder / name).is_dir():
            return self._refusal(401, "RepoNotFound")
        if revision not in (None, "main", self.revision):
            return self._refusal(404, "RevisionNotFound")
        return answer(seen, self.folder / name, name=name, **more)

    def _refusal(self, status, code):
        return reply(
            json.dumps({"error": code}).encode(), status, headers=[("X-Error-Code", code), ("X-Error-Message", code)]
        )

    def _json(self, data):
        return reply(json.dumps(data).encode(), headers=[("X-Repo-Commit", self.revision)])

    def _about(self, _seen, base, name):
        files = sorted(path.relative_to(base).as_posix() for path in base.rglob("*") if path.is_file())
        return self._json(
            {
                "_id": "1",
                "id": name,
                "sha": self.revision,
                "private": False,
                "gated": False,
                "disabled": False,
                "downloads": 0,
                "likes": 0,
                "tags": [],
                "siblings": [{"rfilename": file} for file in files],
            }
        )

    def _tree(self, seen, base, name, inside):
        recursive = dict(seen.query).get("recursive", "").lower() in ("true", "1")
        folder = base / (inside or "")
        if not folder.is_dir():
            return self._refusal(404, "EntryNotFound")
        paths = folder.rglob("*") if recursive else folder.iterdir()
        return self._json([_entry(base, path) for path in sorted(paths)])

    def _paths(self, seen, base, name):
        wanted = json.loads(seen.body)["paths"]
        return self._json([_entry(base, base / path) for path in wanted if (base / path).exists()])

    def _file(self, seen, base, name, file):
        if name in self.gated and "authorization" not in dict(seen.headers):
            return self._refusal(401, "GatedRepo")
        path = base / file
        if not path.is_file():
            return self._refusal(404, "EntryNotFound")
        content = path.read_bytes()
        headers = [
            ("ETag", f'"{hashlib.sha256(content).hexdigest()}"'),
            ("X-Repo-Commit", self.revision),
            ("Accept-Ranges", "bytes"),
        ]
        status = 200
        if wanted := re.fullmatch(r"bytes=(\d+)-(\d*)", seen.header("range") or ""):
            first, last = int(wanted[1]), min(int(wanted[2] or len(content)), len(content) - 1)
            headers.append(("Content-Range", f"bytes {first}-{last}/{len(content)}"))
            content, status = content[first : last + 1], 206
        if seen.method == "GET":
            self.bodies.append((f"{name}/{file}", len(content)))
        return reply(content, status, "application/octet-stream", headers=headers)


def _entry(base, path):
    entry = {"type": "directory", "path": path.relative_to(base).as_posix(), "size": 0, "oid": "0" * 40}
    if path.is_file():
        content = path.read_bytes()
        oid = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        entry |= {"type": "file", "size": len(content), "oid": oid}
    return entry


def variables(url, folder):
    """Return the environment in which the hub's client asks this hub, and keeps what it gets in this folder."""
    return {
        "HF_ENDPOINT": url,
        "HF_HOME": str(folder),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_TOKEN": "",
    }


@contextmanager
def fake_hub(folder):
    """Serve a hub; give it with its server."""
    hub = FakeHub(folder / "hub")
    with Server(hub.answer) as server:
        hub.server = server
        hub.variables = variables(server.url, folder / "hf-home")
        yield hub


@contextmanager
def hub_in_process(folder, monkeypatch):
    """Serve a hub to the client in this process."""
    with fake_hub(folder) as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.server.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.server.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "hf-cache"))
        for name in ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_IMPLICIT_TOKEN"):
            monkeypatch.setattr(constants, name, True)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
        yield hub
