"""Tokens of rows, counted with a policy's tokenizer."""

from pathlib import Path

from transformers import AutoTokenizer

from assay_shared.errors import InvalidInput
from assay_trainer.curation.survey import CountTokens


def token_counter(folder: Path) -> CountTokens:
    """Return a function to count the tokens of messages and of an answer.

    Messages go through the chat template if the tokenizer has one.

    Raises:
        InvalidInput: the folder has no tokenizer.
    """
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder with a tokenizer", field="--tokenizer")
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0][:200]
        raise InvalidInput(f"{folder} has no tokenizer: {reason}", field="--tokenizer") from None

    def count(messages: list[dict[str, str]], answer: str) -> tuple[int, int]:
        if tokenizer.chat_template:
            text = str(
                tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            )
        else:
            text = "\n".join(one["content"] for one in messages)
        ids, answer_ids = (
            tokenizer.encode(one, add_special_tokens=False) for one in (text, answer)
        )
        return len(ids), len(answer_ids)

    return count
