"""Conversion of texts and conversations to token ids, in other processes with limits.

In the service's own process, megabytes of text or an endless chat template would block all other
requests.
"""

import asyncio
import hashlib
import os
import pickle
from collections.abc import Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from assay_inference.tokenizer import chat_template, text_worker
from assay_inference.tokenizer.chat_template import Turn
from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_shared.errors import InvalidInput, TooHard
from assay_shared.runtime.temporary_folder import TemporaryFolder
from assay_shared.runtime.workers import Workers
from assay_shared.text.first_token import with_first_token
from assay_shared.types import LogprobsRequest, Message

if TYPE_CHECKING:  # only a type: it takes seconds to import
    from transformers.tokenization_utils_base import PreTrainedTokenizerBase

#: Largest body with a prompt: the ids of a million tokens, or their text.
PROMPT_BYTES = 4 * 2**20
#: A text with more characters per token of the context is refused untried; a usual token has four.
MAX_CHARS_PER_TOKEN = 16
#: Processor time for the template and the tokens of a request.
_CPU_S = 10.0
#: Memory for a request, in addition to the tokenizer's own.
_ROOM_BYTES = 512 * 2**20
#: Shorter texts are tokenised in this process, in less than a millisecond.
_SHORT_CHARS = 2_000
_MAX_CORES = 4
#: Limit of a worker's reply: a body has at most a token for each of its bytes.
_MAX_REPLY_BYTES = 8 * PROMPT_BYTES
#: Time for calls in flight to finish, once another tokenizer is served.
_RETIRE_S = 60.0


class Texts:
    """Worker processes with the served tokenizer; another tokenizer gets new processes."""

    def __init__(self) -> None:
        self._workers: Workers | None = None
        #: Hash of the processes' tokenizer, and the last vocabulary with this tokenizer.
        self._key = ""
        self._vocabulary: PolicyTokenizer | None = None
        self._changing = asyncio.Lock()
        self._retired: list[Workers] = []
        self._folder = TemporaryFolder("assay-texts-")

    def close(self) -> None:
        """End the processes."""
        for workers in (*self._retired, self._workers):
            if workers is not None:
                workers.close()
        self._folder.remove()

    async def prepare(self, vocabulary: PolicyTokenizer) -> None:
        """Start processes with this vocabulary's tokenizer, unless the running ones have it."""
        async with self._changing:
            if vocabulary is not self._vocabulary:
                await self._change(vocabulary)

    async def encode(self, vocabulary: PolicyTokenizer, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each raw text, after the model's first token if it has one.

        Raises:
            InvalidInput: a text is longer than the context, or takes too much time or memory.
            Overloaded: too many texts of this client wait already.
        """
        found = await self._encode(vocabulary, texts, "prompt")
        return [with_first_token(vocabulary.tokenizer, ids) for ids in found]

    async def encode_turns(
        self,
        vocabulary: PolicyTokenizer,
        turns: Sequence[Turn],
        tools: Sequence[Turn] = (),
        variables: Mapping[str, JsonValue] = MappingProxyType({}),
    ) -> list[int]:
        """Return the ids of a conversation, ready for the answer. Raises as `encode`."""
        text = await self._rendered(vocabulary, turns, tools, variables)
        (ids,) = await self._encode(vocabulary, [text], "messages")
        return ids

    async def encode_continued(
        self, vocabulary: PolicyTokenizer, request: LogprobsRequest
    ) -> tuple[list[int], int]:
        """Return the ids of a prompt or messages with their continuation, and its first place.

        Tokens may join the end of the prompt and the beginning of the continuation: the first
        place is the first id that differs from the prompt's own. Raises as `encode`.
        """
        if request.prompt is not None:
            texts = [request.prompt, request.prompt + request.continuation]
            prompt, whole = await self.encode(vocabulary, texts)
        else:
            turns: list[Turn] = [message.model_dump() for message in request.messages or ()]
            text = await self._rendered(vocabulary, turns, (), request.template)
            texts = [text, text + request.continuation]
            prompt, whole = await self._encode(vocabulary, texts, "messages")
        same = takewhile(lambda pair: pair[0] == pair[1], zip(prompt, whole, strict=False))
        return whole, len(list(same))

    async def _rendered(
        self,
        vocabulary: PolicyTokenizer,
        turns: Sequence[Turn],
        tools: Sequence[Turn],
        variables: Mapping[str, JsonValue],
    ) -> str:
        num_chars = sum(len(str(turn.get("content", ""))) for turn in turns)
        _check_length(vocabulary, num_chars, "messages")
        asked = (list(turns), list(tools), dict(variables))
        return str(await self._call(vocabulary, "render_turns", *asked))

    async def encode_further(
        self,
        vocabulary: PolicyTokenizer,
        token_ids: list[int],
        messages: Sequence[Message],
        variables: Mapping[str, JsonValue] = MappingProxyType({}),
    ) -> list[int]:
        """Return `token_ids` and the ids of further turns after them. Raises as `encode`."""
        turns = [message.model_dump() for message in messages]
        _check_length(vocabulary, sum(len(one.content) for one in messages), "then")
        asked = (turns, dict(variables))
        text = await self._call(vocabulary, "render_further", *asked, field="then")
        (ids,) = await self._encode(vocabulary, [text], "then")
        return chat_template.go_on(token_ids, ids, vocabulary.end_ids)

    async def _encode(
        self, vocabulary: PolicyTokenizer, texts: Sequence[str], field: str
    ) -> list[list[int]]:
        for text in texts:
            _check_length(vocabulary, len(text), field)
        if sum(map(len, texts)) <= _SHORT_CHARS:
            return [vocabulary.encode(text) for text in texts]
        asked = (list(texts), vocabulary.max_length)
        packed = await self._call(vocabulary, "encode", *asked, field=field)
        return [text_worker.unpack(one) for one in packed]

    async def _call(
        self, vocabulary: PolicyTokenizer, function: str, *args: Any, field: str = "messages"
    ) -> Any:
        await self.prepare(vocabulary)
        assert self._workers is not None
        name = f"assay_inference.tokenizer.text_worker:{function}"
        try:
            return await self._workers.call(name, *args, cpu_s=_CPU_S)
        except TooHard as error:
            what = "tokenizer" if function == "encode" else "chat template"
            raise InvalidInput(
                f"the {what} does not come to an end: {error.message}", field=field
            ) from error

    async def _change(self, vocabulary: PolicyTokenizer) -> None:
        tokenizer = vocabulary.tokenizer
        key = await asyncio.to_thread(_key, tokenizer)
        if key != self._key:
            file = self._folder.path / key
            file.write_bytes(await asyncio.to_thread(pickle.dumps, tokenizer))
            if self._workers is not None:
                self._retire(self._workers)
            self._workers = Workers(
                num=min(_MAX_CORES, len(os.sched_getaffinity(0))),
                prepare=("assay_inference.tokenizer.text_worker:load", str(file)),
                room_bytes=_ROOM_BYTES,
                max_reply_bytes=_MAX_REPLY_BYTES,
            )
            self._workers.start()
        self._key, self._vocabulary = key, vocabulary

    def _retire(self, workers: Workers) -> None:
        """End the old processes after `_RETIRE_S`, so that their calls in flight can finish."""
        self._retired.append(workers)
        asyncio.get_running_loop().call_later(_RETIRE_S, workers.close)


def _key(tokenizer: "PreTrainedTokenizerBase") -> str:
    """Return a hash; tokenizers with the same hash give the same ids for each text."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    rules = sorted(tokenizer.get_vocab().items()) if backend is None else backend.to_str()
    whole = f"{type(tokenizer)} {rules} {tokenizer.special_tokens_map} {tokenizer.chat_template}"
    return hashlib.sha256(whole.encode(errors="surrogatepass")).hexdigest()


def _check_length(vocabulary: PolicyTokenizer, num_chars: int, field: str) -> None:
    most = vocabulary.max_length * MAX_CHARS_PER_TOKEN
    if num_chars > most:
        raise InvalidInput(
            f"{num_chars} characters do not fit in a context of {vocabulary.max_length} tokens; "
            f"up to {most} are tokenised",
            field=field,
        )
