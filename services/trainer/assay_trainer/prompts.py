"""Tasks as token ids. The trainer's only place that applies a chat template.

Inference does the same to the same messages with the same tokenizer; the ids it really used come
back with every group.
"""

from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.types import PromptFormat, Task


def prompt_token_ids(task: Task, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The prompt as the policy sees it, up to where its answer begins."""
    text = task.prompt
    if task.prompt_format is PromptFormat.CHAT:
        turns = [message.model_dump() for message in task.messages]
        text = str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
    return list(tokenizer.encode(text, add_special_tokens=False))


def answer_token_ids(answer: str, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """An answer and the token that ends it."""
    end = tokenizer.eos_token_id
    return [*tokenizer.encode(answer, add_special_tokens=False), int(end)]
