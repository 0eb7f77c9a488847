"""Replies in OpenAI's format: whole answers, and the chunks of streamed answers.

Each reply names the weights in `policy` and, shortened, in `system_fingerprint`. On request a reply
also has vLLM's fields `prompt_token_ids` and `token_ids`.
"""

import time
import uuid
from dataclasses import dataclass

from pydantic import BaseModel, JsonValue

from assay_inference.api.openai_logprobs import (
    chat_logprobs,
    prompt_logprobs,
    text_logprobs,
    text_of,
)
from assay_inference.api.tool_calls import Call, HeldText, ReplyParts, read_reply
from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_shared.types import Completion, PolicyVersion, PromptLogprobs

Json = dict[str, JsonValue]


class OpenAIPrompt(BaseModel):
    """A prompt's token ids and completions; `read` has its log-probabilities, if requested."""

    token_ids: list[int]
    completions: list[Completion]
    read: PromptLogprobs | None = None


@dataclass(frozen=True)
class Wanted:
    """The requested parts of an answer.

    `calls`: the request offers tools, so the text is searched for calls. `echo`: text and
    log-probabilities begin with the prompt's.
    """

    vocabulary: PolicyTokenizer
    logprobs: bool = False
    top_logprobs: int = 0
    prompt_logprobs: int | None = None
    echo: bool = False
    token_ids: bool = False
    calls: bool = False
    usage: bool = False

    @property
    def tells_tokens(self) -> bool:
        """True if the answer lists single tokens with their log-probabilities."""
        return self.logprobs or self.prompt_logprobs is not None

    @property
    def num_top_of_prompt(self) -> int | None:
        """The number of most probable tokens needed at each place of the prompt.

        None if the prompt's log-probabilities are not needed at all.
        """
        asked = [self.top_logprobs] if self.echo and self.logprobs else []
        asked += [] if self.prompt_logprobs is None else [self.prompt_logprobs]
        return max(asked, default=None)


def card(model_name: str, policy: PolicyVersion | None) -> Json:
    """Return a model's entry in `/v1/models`."""
    shown: Json = {"id": model_name, "object": "model", "created": 0, "owned_by": "assay"}
    return shown | {"policy": policy.model_dump() if policy else None}


def text_answer(model_name: str, drawn: list[OpenAIPrompt], wanted: Wanted) -> Json:
    """Return the answer of /v1/completions, with the samples of all prompts in order."""
    kind = TextKind(wanted)
    pairs = [(prompt, one) for prompt in drawn for one in prompt.completions]
    choices: list[JsonValue] = []
    for index, (prompt, one) in enumerate(pairs):
        choice: Json = {"index": index, "text": kind.echoed(prompt.token_ids) + one.text}
        choice |= kind.end(one, prompt.read) | kind.ids(one)
        if wanted.token_ids:
            choice["prompt_token_ids"] = list(prompt.token_ids)
        choices.append(choice | _read(prompt, wanted))
    return _envelope("cmpl", "text_completion", model_name, drawn) | {"choices": choices}


def chat_answer(model_name: str, prompt: OpenAIPrompt, wanted: Wanted) -> Json:
    """Return the answer of /v1/chat/completions."""
    kind = ChatKind(wanted)
    choices: list[JsonValue] = []
    for index, one in enumerate(prompt.completions):
        reply = read_reply(one.text) if wanted.calls else ReplyParts(one.text)
        message: Json = {"role": "assistant", "content": reply.content}
        if reply.calls:
            message |= {"content": reply.content or None, "tool_calls": _calls(reply.calls)}
        choice: Json = {"index": index, "message": message}
        end = kind.end(one, prompt.read, called=bool(reply.calls))
        choices.append(choice | end | kind.ids(one))
    answer = _envelope("chatcmpl", "chat.completion", model_name, [prompt])
    sent: Json = {"prompt_token_ids": list(prompt.token_ids)} if wanted.token_ids else {}
    return answer | {"choices": choices} | sent | _read(prompt, wanted)


def _read(prompt: OpenAIPrompt, wanted: Wanted) -> Json:
    if prompt.read is None or wanted.prompt_logprobs is None:
        return {}
    return {"prompt_logprobs": prompt_logprobs(wanted.vocabulary, prompt.read)}


def _envelope(prefix: str, kind: str, model_name: str, drawn: list[OpenAIPrompt]) -> Json:
    completions = [completion for prompt in drawn for completion in prompt.completions]
    envelope: Json = {
        "id": f"{prefix}-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": model_name,
        "usage": _usage(drawn),
    }
    return envelope | _weights(completions[0].policy)


def _weights(policy: PolicyVersion) -> Json:
    fingerprint = f"v{policy.version}-{policy.digest[:12]}"
    return {"system_fingerprint": fingerprint, "policy": policy.model_dump()}


def _usage(drawn: list[OpenAIPrompt]) -> Json:
    num_in = sum(len(prompt.token_ids) for prompt in drawn)
    num_out = sum(len(one.token_ids) for prompt in drawn for one in prompt.completions)
    return {
        "prompt_tokens": num_in,
        "completion_tokens": num_out,
        "total_tokens": num_in + num_out,
    }


def _calls(calls: tuple[Call, ...]) -> list[JsonValue]:
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in calls
    ]


class TextKind:
    """The format of text completions."""

    prefix = "cmpl"
    chunk = "text_completion"

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted

    def echoed(self, prompt: list[int]) -> str:
        """Return the prompt's text if the answer echoes it, else an empty text."""
        return text_of(self.wanted.vocabulary, prompt) if self.wanted.echo else ""

    def end(
        self, completion: Completion, read: PromptLogprobs | None = None, *, called: bool = False
    ) -> Json:
        """Return the finish reason and, if requested, the log-probabilities of the completion."""
        reason = "tool_calls" if called else completion.finish_reason
        return {
            "finish_reason": reason,
            "logprobs": self._logprobs(completion, read) if self.wanted.logprobs else None,
        }

    def ids(self, completion: Completion) -> Json:
        return {"token_ids": list(completion.token_ids)} if self.wanted.token_ids else {}

    def delta(self, text: str, calls: tuple[Call, ...] = ()) -> Json:
        """Return the added part of a chunk."""
        return {"text": text}

    def _logprobs(self, completion: Completion, read: PromptLogprobs | None) -> JsonValue:
        wanted = self.wanted
        prompt = read if wanted.echo else None
        return text_logprobs(wanted.vocabulary, completion, prompt, wanted.top_logprobs)


class ChatKind(TextKind):
    """The format of chat completions."""

    prefix = "chatcmpl"
    chunk = "chat.completion.chunk"

    def delta(self, text: str, calls: tuple[Call, ...] = ()) -> Json:
        delta: Json = {"role": "assistant", "content": text} if text else {}
        if calls:
            numbered = [
                {"index": index} | call
                for index, call in enumerate(_calls(calls))
                if isinstance(call, dict)
            ]
            delta |= {"role": "assistant", "tool_calls": list[JsonValue](numbered)}
        return {"delta": delta}

    def _logprobs(self, completion: Completion, read: PromptLogprobs | None) -> JsonValue:
        return chat_logprobs(self.wanted.vocabulary, completion)


class Chunks:
    """The chunks of a streamed answer.

    Texts are sent as they are sampled. A sample's log-probabilities, ids and calls are sent with
    its end: before then a call may turn out to be unreadable.
    """

    def __init__(
        self,
        model_name: str,
        prompt: list[int],
        kind: TextKind,
        wanted: Wanted,
        read: PromptLogprobs | None = None,
    ) -> None:
        self._kind = kind
        #: The prompt's log-probabilities, if requested.
        self.read = read
        self._echoed: set[int] = set()
        self._wanted = wanted
        self._prompt = prompt
        self._held: dict[int, HeldText] = {}
        self._base: Json = {
            "id": f"{kind.prefix}-{uuid.uuid4().hex}",
            "object": kind.chunk,
            "created": int(time.time()),
            "model": model_name,
        }

    def text(self, index: int, text: str) -> Json | None:
        """Return the chunk of a text, or None while the text may be part of a call."""
        if self._wanted.calls:
            text = self._held.setdefault(index, HeldText()).add(text)
            if not text:
                return None
        delta = self._kind.delta(self._echo(index) + text)
        return self._chunk(index, delta, {"finish_reason": None, "logprobs": None})

    def end(self, index: int, completion: Completion) -> Json:
        """Return the last chunk of a sample."""
        rest = self._held[index].end() if index in self._held else ReplyParts("")
        end = self._kind.end(completion, self.read, called=bool(rest.calls))
        end |= self._kind.ids(completion)
        text = self._echo(index) + rest.content
        chunk = self._chunk(index, self._kind.delta(text, rest.calls), end)
        sent: Json = {"prompt_token_ids": list(self._prompt)} if self._wanted.token_ids else {}
        return chunk | _weights(completion.policy) | sent

    def _echo(self, index: int) -> str:
        """Return the echoed prompt before a sample's first text, else an empty text."""
        if index in self._echoed:
            return ""
        self._echoed.add(index)
        return self._kind.echoed(self._prompt)

    def usage(self, completions: list[Completion]) -> Json | None:
        """Return the last chunk of the stream, with the token counts, or None if not requested."""
        if not self._wanted.usage:
            return None
        drawn = [OpenAIPrompt(token_ids=self._prompt, completions=completions)]
        return self._base | {"choices": [], "usage": _usage(drawn)}

    def _chunk(self, index: int, delta: Json, end: Json) -> Json:
        usage: Json = {"usage": None} if self._wanted.usage else {}
        return self._base | usage | {"choices": [{"index": index} | delta | end]}
