"""A scripted model at an OpenAI-compatible endpoint of this process: it stands in for a judge's.

No model is downloaded, and none is asked elsewhere: a script gives each reply. A reply travels as a
model's would: as a chat completion over HTTP.
"""

import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from assay_shared.tryout.given import ScriptedReply, TrialGroup

NAME = "scripted-judge"
_MAX_REQUEST_BYTES = 2**20
_READ_TIMEOUT_S = 30.0
_THINKING = "I have to compare the answer with the reference, word by word, before I"


class _QuietServer(ThreadingHTTPServer):
    """A server that prints nothing when a client breaks its connection."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Do nothing: a client learns of an error by its broken connection."""


class JudgingModel:
    """The endpoint, as a context manager. Each asker has a path, and its own order of replies."""

    def __init__(self, groups: Sequence[TrialGroup]) -> None:
        """Store the replies to the answers of the groups."""
        self._scripts = {
            answer.text.strip(): answer.judge
            for group in groups
            for answer in group.answers
            if answer.judge
        }
        self._asked: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._server = _QuietServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_READ_TIMEOUT_S)

    def url(self, asker: str) -> str:
        """Return the base address for an asker: `judge`, or `usual`."""
        return f"http://127.0.0.1:{self._server.server_port}/{asker}/v1"

    def reply(self, asker: str, prompt: str) -> tuple[int, dict[str, Any]]:
        """Return status and body of the next reply to a prompt."""
        text = self._answer_in(prompt)
        if text is None:
            return 400, {"error": {"message": "the script knows no answer in this prompt"}}
        with self._lock:
            number = self._asked[asker, text]
            self._asked[asker, text] += 1
        script = self._scripts[text]
        return _body_of(script[min(number, len(script) - 1)], len(prompt))

    def _answer_in(self, prompt: str) -> str | None:
        """Return the answer that ends last in a prompt: a reference before it may equal another."""
        ends = {one: prompt.rfind(one) + len(one) for one in self._scripts if one in prompt}
        return max(ends, key=lambda one: (ends[one], len(one)), default=None)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class ModelConnection(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = _READ_TIMEOUT_S

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                if length > _MAX_REQUEST_BYTES:
                    return self.send_error(413)
                body = json.loads(self.rfile.read(length))
                prompt = "\n".join(str(one["content"]) for one in body["messages"])
                status, content = model.reply(self.path.split("/")[1], prompt)
                data = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                return None

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

        return ModelConnection


def _body_of(reply: ScriptedReply, prompt_characters: int) -> tuple[int, dict[str, Any]]:
    """Return status and body of a reply, as a server of models would send it."""
    if reply.trouble == "busy":
        return 503, {"error": {"message": "the model is overloaded"}}
    thought = f"<think>{reply.thinks}</think>\n" if reply.thinks else ""
    content, reason = thought + json.dumps({"verdict": reply.says, "reason": "as scripted"}), "stop"
    if reply.trouble is not None:
        content = "" if reply.trouble == "empty" else f"<think>{_THINKING}"
        reason = "stop" if reply.trouble == "empty" else "length"
    used: Mapping[str, int] = {
        "prompt_tokens": 1 + prompt_characters // 4,
        "completion_tokens": 1 + len(content) // 4,
    }
    message = {"role": "assistant", "content": content}
    return 200, {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": NAME,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {**used, "total_tokens": sum(used.values())},
    }
