from pathlib import Path

from assay_trainer.curation.tokens import token_counter
from tests.support.policies import make_llama_tokenizer

MESSAGES = [{"role": "user", "content": "a b c"}, {"role": "assistant", "content": "d"}]


def test_tokens_are_counted_with_and_without_a_chat_template(tmp_path: Path) -> None:
    tokenizer = make_llama_tokenizer()
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path / "plain")
    tokenizer.chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    tokenizer.save_pretrained(tmp_path / "chat")

    def number(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    assert token_counter(tmp_path / "plain")(MESSAGES, "xyz") == (number("a b c\nd"), number("xyz"))
    told = number("<user>a b c<assistant>d")
    assert token_counter(tmp_path / "chat")(MESSAGES, "xyz") == (told, number("xyz"))
