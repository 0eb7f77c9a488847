"""A hub on the loopback, from a folder: as much of the API as huggingface_hub needs to download.

Folders are <kind>/<owner>/<name>/<commit>, and the file <kind>/<owner>/<name>/main has a commit.
"""

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest
from huggingface_hub import close_session, constants

_API = re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/(revision|tree)/([^/?]+))?(?:\?.*)?$")
_FILE = re.compile(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)$")


@dataclass
class LocalHub:
    """A hub, and its received requests."""

    folder: Path
    url: str = ""
    #: Method, path and Range header of each request.
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    #: Repositories that want this token, and those whose terms nobody has accepted.
    tokens: dict[str, str] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    #: A file's next answer ends after this number of bytes.
    break_after: dict[str, int] = field(default_factory=dict)

    def publish(self, kind: str, name: str, files: Mapping[str, bytes]) -> str:
        """Add a commit to a repository of `models` or `datasets` and return its hash."""
        content = b"".join(path.encode() + files[path] for path in sorted(files))
        commit = hashlib.sha1(content).hexdigest()
        for path, data in files.items():
            file = self.folder / kind / name / commit / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        (self.folder / kind / name / "main").write_text(commit)
        return commit

    def commit(self, kind: str, name: str, revision: str) -> str | None:
        """Return the commit of a revision, if there is one."""
        place = self.folder / kind / name
        if revision == "main":
            return (place / "main").read_text()
        return revision if (place / revision).is_dir() else None

    @contextmanager
    def running(self) -> Iterator["LocalHub"]:
        """Serve while the context lasts."""

        class Bound(_Answers):
            hub = self

        server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def use(self, monkeypatch: pytest.MonkeyPatch, cache: Path, *, offline: bool = False) -> None:
        """Point the library at this hub and at a cache, as HF_ENDPOINT and HF_HOME do at import."""
        monkeypatch.setattr(constants, "ENDPOINT", self.url)
        template = f"{self.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache / "hub"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(cache / "token"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        close_session()


class _Answers(BaseHTTPRequestHandler):
    hub: LocalHub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.hub.asked.append((self.command, self.path, self.headers.get("Range")))
        if found := _API.match(self.path):
            self._api(found[1], found[2], found[3], found[4] or "main")
        elif found := _FILE.match(self.path):
            self._file("datasets" if found[1] else "models", found[2], found[3], unquote(found[4]))
        else:
            self._answer(404, b"")

    do_HEAD = do_GET

    def _refused(self, kind: str, name: str, revision: str, *, reads: bool) -> bool:
        token = self.hub.tokens.get(name)
        sent = self.headers.get("Authorization")
        if not (self.hub.folder / kind / name).is_dir() or (token and sent != f"Bearer {token}"):
            self._answer(401 if not sent else 404, b"", {"X-Error-Code": "RepoNotFound"})
        elif reads and name in self.hub.gated:
            self._answer(403, b"", {"X-Error-Code": "GatedRepo"})
        elif self.hub.commit(kind, name, revision) is None:
            self._answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
        else:
            return False
        return True

    def _api(self, kind: str, name: str, what: str | None, revision: str) -> None:
        if self._refused(kind, name, revision, reads=False):
            return
        commit = self.hub.commit(kind, name, revision) or ""
        place = self.hub.folder / kind / name / commit
        files = sorted(path for path in place.rglob("*") if path.is_file())
        tree = [
            {
                "type": "file",
                "path": str(file.relative_to(place)),
                "size": file.stat().st_size,
                "oid": _etag(file),
            }
            for file in files
        ]
        info = {"id": name, "sha": commit, "siblings": [{"rfilename": one["path"]} for one in tree]}
        self._answer(200, json.dumps(tree if what == "tree" else info).encode())

    def _file(self, kind: str, name: str, revision: str, path: str) -> None:
        if self._refused(kind, name, revision, reads=True):
            return
        commit = self.hub.commit(kind, name, revision) or ""
        file = self.hub.folder / kind / name / commit / path
        if not file.is_file():
            self._answer(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
            return
        data, headers = file.read_bytes(), {"ETag": f'"{_etag(file)}"', "X-Repo-Commit": commit}
        status, asked = 200, re.match(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if asked:
            first = int(asked[1])
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
            status, data = 206, data[first:]
        limit = None if self.command == "HEAD" else self.hub.break_after.pop(path, None)
        self._answer(status, data, headers, limit)

    def _answer(
        self,
        status: int,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | dict(headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:limit])
        if limit is not None:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


def _etag(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()
