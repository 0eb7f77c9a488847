"""What OpenAI's clients read: whole answers, and the chunks of streamed ones.

Each names the weights in `policy` and, shortened, in `system_fingerprint`. Beside OpenAI's own
fields there are vLLM's `prompt_token_ids` and `token_ids`, where they were asked for.
"""

import time
import uuid
from dataclasses import dataclass

from pydantic import BaseModel, JsonValue

from assay_inference.tool_calls import Call, HeldText, Reply, read_reply
from assay_inference.vocabulary import Vocabulary
from assay_shared.types import Completion, PolicyVersion

Json = dict[str, JsonValue]


class Prompt(BaseModel):
    """One prompt's token ids and its completions."""

    token_ids: list[int]
    completions: list[Completion]


@dataclass(frozen=True)
class Wanted:
    """What of an answer was asked for. `calls`: the model was told of tools that it may call."""

    vocabulary: Vocabulary
    logprobs: bool = False
    token_ids: bool = False
    calls: bool = False
    usage: bool = False


def card(model_name: str, policy: PolicyVersion | None) -> Json:
    """A model as `/v1/models` lists it."""
    shown: Json = {"id": model_name, "object": "model", "created": 0, "owned_by": "assay"}
    return shown | {"policy": policy.model_dump() if policy else None}


def text_answer(model_name: str, drawn: list[Prompt], wanted: Wanted) -> Json:
    """Of /v1/completions: the samples of all prompts, in order."""
    kind = TextKind(wanted)
    pairs = [(prompt.token_ids, one) for prompt in drawn for one in prompt.completions]
    choices: list[JsonValue] = []
    for index, (prompt_ids, one) in enumerate(pairs):
        choice: Json = {"index": index, "text": one.text}
        choice |= kind.end(one) | kind.ids(one)
        if wanted.token_ids:
            choice["prompt_token_ids"] = list(prompt_ids)
        choices.append(choice)
    return _envelope("cmpl", "text_completion", model_name, drawn) | {"choices": choices}


def chat_answer(model_name: str, prompt: Prompt, wanted: Wanted) -> Json:
    """Of /v1/chat/completions."""
    kind = ChatKind(wanted)
    choices: list[JsonValue] = []
    for index, one in enumerate(prompt.completions):
        reply = read_reply(one.text) if wanted.calls else Reply(one.text)
        message: Json = {"role": "assistant", "content": reply.content}
        if reply.calls:
            message |= {"content": reply.content or None, "tool_calls": _calls(reply.calls)}
        choice: Json = {"index": index, "message": message}
        choices.append(choice | kind.end(one, called=bool(reply.calls)) | kind.ids(one))
    answer = _envelope("chatcmpl", "chat.completion", model_name, [prompt])
    sent: Json = {"prompt_token_ids": list(prompt.token_ids)} if wanted.token_ids else {}
    return answer | {"choices": choices} | sent


def _envelope(prefix: str, kind: str, model_name: str, drawn: list[Prompt]) -> Json:
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


def _usage(drawn: list[Prompt]) -> Json:
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
    """What is particular to text completions."""

    prefix = "cmpl"
    chunk = "text_completion"

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted

    def end(self, completion: Completion, *, called: bool = False) -> Json:
        """Why it ended and, where asked for, the log-probabilities of what was drawn."""
        reason = "tool_calls" if called else completion.finish_reason
        return {
            "finish_reason": reason,
            "logprobs": self._logprobs(completion) if self._wanted.logprobs else None,
        }

    def ids(self, completion: Completion) -> Json:
        return {"token_ids": list(completion.token_ids)} if self._wanted.token_ids else {}

    def delta(self, text: str, calls: tuple[Call, ...] = ()) -> Json:
        """What a chunk adds."""
        return {"text": text}

    def _logprobs(self, completion: Completion) -> JsonValue:
        return {
            "tokens": [self._wanted.vocabulary.decode([one]) for one in completion.token_ids],
            "token_logprobs": list(completion.logprobs),
            "top_logprobs": None,
            "text_offset": None,
        }


class ChatKind(TextKind):
    """What is particular to chats."""

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

    def _logprobs(self, completion: Completion) -> JsonValue:
        decode = self._wanted.vocabulary.decode
        pairs = zip(completion.token_ids, completion.logprobs, strict=True)
        return {
            "content": [
                {"token": decode([token]), "logprob": value, "bytes": None, "top_logprobs": []}
                for token, value in pairs
            ]
        }


class Chunks:
    """The chunks of one streamed answer.

    Texts come as they are drawn; log-probabilities and ids of a sample come with its end, and so do
    calls, for until then nobody knows whether they can be read.
    """

    def __init__(self, model_name: str, prompt: list[int], kind: TextKind, wanted: Wanted) -> None:
        self._kind = kind
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
        """None where what was added may be a part of a call."""
        if self._wanted.calls:
            text = self._held.setdefault(index, HeldText()).add(text)
            if not text:
                return None
        return self._chunk(index, self._kind.delta(text), {"finish_reason": None, "logprobs": None})

    def end(self, index: int, completion: Completion) -> Json:
        """The last chunk of a sample."""
        rest = self._held[index].end() if index in self._held else Reply("")
        end = self._kind.end(completion, called=bool(rest.calls)) | self._kind.ids(completion)
        chunk = self._chunk(index, self._kind.delta(rest.content, rest.calls), end)
        sent: Json = {"prompt_token_ids": list(self._prompt)} if self._wanted.token_ids else {}
        return chunk | _weights(completion.policy) | sent

    def usage(self, completions: list[Completion]) -> Json | None:
        """The very last chunk, where it was asked for."""
        if not self._wanted.usage:
            return None
        drawn = [Prompt(token_ids=self._prompt, completions=completions)]
        return self._base | {"choices": [], "usage": _usage(drawn)}

    def _chunk(self, index: int, delta: Json, end: Json) -> Json:
        usage: Json = {"usage": None} if self._wanted.usage else {}
        return self._base | usage | {"choices": [{"index": index} | delta | end]}
