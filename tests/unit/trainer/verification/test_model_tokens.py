"""Which tokens of a model are control tokens, and where an input may have them."""

from tokenizers import AddedToken

from assay_trainer.learner.network.model import train_tokenizer
from assay_trainer.verification.model_tokens import ModelTokens
from tests.support.policies import TEXTS, make_llama_tokenizer


def test_control_tokens_are_special_ones_and_added_ones_of_the_template() -> None:
    tokenizer = train_tokenizer(TEXTS, 320)
    tokenizer.add_tokens([AddedToken("<tool>"), AddedToken("<table>"), AddedToken("  ")])
    tokenizer.chat_template = "  <tool>" + str(tokenizer.chat_template)
    tokens = ModelTokens(tokenizer, frozenset())
    named = {"<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<tool>"}
    assert set(tokens.control.values()) == named


def test_an_end_of_the_configuration_is_a_control_token() -> None:
    tokenizer = train_tokenizer(TEXTS, 320)
    (ordinary,) = tokenizer.encode("a")
    assert ordinary not in ModelTokens(tokenizer, frozenset()).control
    assert ordinary in ModelTokens(tokenizer, frozenset([ordinary])).control


def test_the_token_for_unknown_text_may_stand_in_a_prompt() -> None:
    tokenizer = train_tokenizer(TEXTS, 320)
    tokenizer.add_special_tokens({"unk_token": "<unk>"})
    assert tokenizer.unk_token_id not in ModelTokens(tokenizer, frozenset()).control
    tokenizer.unk_token = tokenizer.eos_token  # GPT-2 has one token for both
    assert tokenizer.eos_token_id in ModelTokens(tokenizer, frozenset()).control


def test_a_bos_may_stand_first_alone_and_only_where_the_tokenizer_puts_it() -> None:
    llama = ModelTokens(make_llama_tokenizer(), frozenset())
    assert llama.bos is not None
    ids = llama.own_ids("Return x")
    assert ids[0] == llama.bos
    assert llama.positions_of_control(ids) == []
    assert llama.positions_of_control([llama.bos, *ids]) == [1]
    assert llama.positions_of_control([*ids, llama.bos]) == [len(ids)]
    qwen = train_tokenizer(TEXTS, 320)
    qwen.bos_token = qwen.eos_token  # known, but not put before texts
    tokens = ModelTokens(qwen, frozenset())
    assert tokens.bos is None
    assert tokens.positions_of_control([qwen.bos_token_id, *tokens.own_ids("x")]) == [0]
