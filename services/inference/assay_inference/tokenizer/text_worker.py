"""The functions run by the processes of `texts`: rendering and tokenising untrusted texts.

A chat template is a program: it comes with a checkpoint, and may never end.
"""

import base64
import pickle
import sys
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay_inference.tokenizer import chat_template
from assay_shared.errors import InvalidInput
from assay_shared.types import Message

if TYPE_CHECKING:
    from transformers.tokenization_utils_base import PreTrainedTokenizerBase

#: Set once, in the process from which all others are forked.
_tokenizers: "list[PreTrainedTokenizerBase]" = []


def load(file: str) -> None:
    """Read a tokenizer from a pickle written by this service."""
    # Tokenising needs no model: otherwise torch would take half a gigabyte in each process.
    sys.modules["torch"] = None  # type: ignore[assignment]  # this is how an import is forbidden
    _tokenizers.append(pickle.loads(Path(file).read_bytes()))


def encode(texts: list[str], max_tokens: int) -> list[str]:
    """Return the ids of each text, packed; see `unpack`."""
    return [_packed(chat_template.encode_text(_tokenizers[0], one), max_tokens) for one in texts]


def render_turns(turns: list[Any], tools: list[Any], variables: dict[str, Any]) -> str:
    """Return the chat template's text of a conversation."""
    return chat_template.render_turns(_tokenizers[0], turns, tools, variables)


def render_further(messages: list[dict[str, str]], variables: dict[str, Any]) -> str:
    """Return the chat template's text after a reply, with the turns that follow it."""
    turns = [Message.model_validate(message) for message in messages]
    return chat_template.render_further(_tokenizers[0], turns, variables)


def _packed(ids: list[int], max_tokens: int) -> str:
    if len(ids) > max_tokens:
        raise InvalidInput(
            f"a prompt of {len(ids)} tokens leaves no room in a context of {max_tokens}",
            field="sampling.max_tokens",
        )
    return base64.b64encode(array("i", ids).tobytes()).decode()


def unpack(packed: str) -> list[int]:
    """Return the ids of a text packed by `encode`."""
    ids = array("i")
    ids.frombytes(base64.b64decode(packed))
    return ids.tolist()
