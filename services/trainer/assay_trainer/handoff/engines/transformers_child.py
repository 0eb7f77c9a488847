"""A stranger's program: it loads a folder with transformers, offline, and answers prompts.

`python -I transformers_child.py JOB OUTPUT`, both JSON files. It imports nothing of Assay, so the
folder needs nothing of Assay either.
"""

import ctypes
import json
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

_REPLY = "assay-reply-7f3a"
_TOP = 8
_PR_SET_PDEATHSIG = 1
#: Errors of a template's own arithmetic, look-ups and calls.
_OF_TEMPLATES = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError)
_GENERATION = "generation_config.json"
#: Settings that change greedy answers, and their values without an effect.
_CHANGING: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty"), (1,)),
    **dict.fromkeys(("num_beams", "num_beam_groups", "guidance_scale"), (1,)),
    **dict.fromkeys(("min_length", "min_new_tokens", "penalty_alpha"), (0,)),
    **dict.fromkeys(("no_repeat_ngram_size", "encoder_no_repeat_ngram_size"), (0,)),
    **dict.fromkeys(("suppress_tokens", "begin_suppress_tokens", "bad_words_ids"), ([],)),
    **dict.fromkeys(("forced_bos_token_id", "forced_eos_token_id", "force_words_ids"), ([],)),
    **dict.fromkeys(("sequence_bias", "stop_strings", "watermarking_config"), ([], {})),
    **dict.fromkeys(("exponential_decay_length_penalty", "dola_layers", "constraints"), ([],)),
}
#: Settings of sampling: plain transformers heeds them with do_sample alone, vLLM always.
_SAMPLING: dict[str, tuple[object, ...]] = {
    "do_sample": (False,),
    **dict.fromkeys(("temperature", "top_p", "typical_p", "top_h"), (1,)),
    "top_k": (0, 50),
    **dict.fromkeys(("min_p", "epsilon_cutoff", "eta_cutoff"), (0,)),
}


def main() -> None:
    """Load the folder of the job, and write what was found."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    job = json.loads(Path(sys.argv[1]).read_text())
    socket.socket.connect = _offline  # type: ignore[method-assign]
    started = time.monotonic()
    tokenizer = _tokenizer(job["tokenizer"])
    found = _tokenizer_facts(tokenizer, job)
    model, loaded = _model(job)
    found |= _model_facts(model, loaded, job)
    found["answers"], found["num_too_long"] = _answers(model, tokenizer, job)
    found |= _settings_facts(model, tokenizer, loaded["generation"], found, job)
    found["versions"] = _versions()
    found["seconds"] = time.monotonic() - started
    Path(sys.argv[2]).write_text(json.dumps(found))


def _offline(*_: object) -> None:
    raise OSError("a hand-off is loaded offline")


def _tokenizer(folder: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _model(job: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the model, with its adapter unmerged, and the account of its loading."""
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig

    auto: Any = AutoModelForCausalLM
    device = job["device"] or ("cuda" if torch.cuda.is_available() else "cpu")
    model, loaded = auto.from_pretrained(
        job["folder"],
        config=_config(job),
        local_files_only=True,
        use_safetensors=True,
        trust_remote_code=False,
        dtype="auto",
        output_loading_info=True,
    )
    # Answers are compared without the folder's settings, which engines heed differently.
    loaded["generation"] = model.generation_config
    model.generation_config = GenerationConfig()
    if job["adapter"]:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, job["adapter"])
    return model.to(device).eval(), loaded


def _config(job: dict[str, Any]) -> Any:
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(
        job["folder"], local_files_only=True, trust_remote_code=False
    )
    if job["unquantized"] and hasattr(config, "quantization_config"):
        del config.quantization_config
    return config


def _model_facts(model: Any, loaded: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    import torch
    from transformers import AutoModelForCausalLM

    config = _config(job)
    with torch.device("meta"):
        expected = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    return {
        "model_class": type(model).__name__,
        "num_parameters": sum(one.numel() for one in model.parameters()),
        "num_expected": sum(one.numel() for one in expected.parameters()),
        "missing": sorted(map(str, loaded.get("missing_keys", ()))),
        "unexpected": sorted(map(str, loaded.get("unexpected_keys", ()))),
        "mismatched": sorted(str(one) for one in loaded.get("mismatched_keys", ())),
        "dtype": str(model.dtype).removeprefix("torch."),
        "num_embeddings": model.get_input_embeddings().weight.shape[0],
    }


def _tokenizer_facts(tokenizer: Any, job: dict[str, Any]) -> dict[str, Any]:
    used = used_ids(tokenizer)
    pairs = zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True)
    special = {text: number for text, number in pairs if text in used}
    broken = [
        text
        for text, number in special.items()
        if tokenizer.encode(text, add_special_tokens=False) != [number]
        or tokenizer.decode([number], skip_special_tokens=False).strip() != text.strip()
        or tokenizer.decode([number], skip_special_tokens=True).strip()
    ]
    ends = _ends(tokenizer, Path(job["ends"]))
    return {
        "num_tokens": len(used),
        "largest_id": max(used.values(), default=-1),
        "special_tokens": {str(text): int(number) for text, number in special.items()},
        "broken_specials": broken,
        "ends": ends,
        "ordinary_ends": _ordinary(tokenizer, {one for ids in ends.values() for one in ids}),
        **_template_facts(tokenizer, job["prompts"][0]),
    }


def used_ids(tokenizer: Any) -> dict[str, int]:
    """Return the tokens with their ids, without those that texts never become.

    A library's class may add its own special tokens to a tokenizer without any. Such a token, the
    last of all, counts only if the chat template names it.
    """
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    special, template = set(tokenizer.all_special_ids), str(tokenizer.chat_template or "")
    last = max((one for one in vocabulary.values() if one not in special), default=-1)
    return {
        text: number
        for text, number in vocabulary.items()
        if number <= last or number not in special or text in template
    }


def _ordinary(tokenizer: Any, ids: set[int]) -> dict[int, str]:
    """Return the tokens, with their texts, that are not special: texts have them too."""
    added = tokenizer.added_tokens_decoder
    special = {number for number, token in added.items() if token.special}
    known = set(tokenizer.get_vocab().values())
    plain = sorted((ids & known) - special - set(tokenizer.all_special_ids))
    return {one: tokenizer.convert_ids_to_tokens(one) for one in plain}


def _ends(tokenizer: Any, folder: Path) -> dict[str, list[int]]:
    ends = {}
    for name in (_GENERATION, "config.json"):
        file = folder / name
        named = json.loads(file.read_bytes()).get("eos_token_id") if file.is_file() else None
        if named is not None:
            ends[name] = sorted(named) if isinstance(named, list) else [named]
    if tokenizer.eos_token_id is not None:
        ends["tokenizer"] = [int(tokenizer.eos_token_id)]
    return ends


def _template_facts(tokenizer: Any, turns: list[dict[str, str]]) -> dict[str, Any]:
    if tokenizer.chat_template is None:
        return {"has_template": False}
    import jinja2

    failures = (jinja2.TemplateError, *_OF_TEMPLATES)
    found: dict[str, Any] = {"has_template": True}
    try:
        found["rendered"] = [
            tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=wanted)
            for wanted in (False, True)
        ]
    except failures as error:
        found["template_error"] = f"{type(error).__name__}: {error}"[:500]
    try:
        found["template_end"] = _template_end(tokenizer)
    except failures as error:
        found["template_end_error"] = f"{type(error).__name__}: {error}"[:500]
    return found


def _template_end(tokenizer: Any) -> tuple[int, str]:
    """Return the token that the template puts after a reply."""
    said = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": _REPLY},
        {"role": "user", "content": "?"},
    ]
    text = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    _, shown, after = text.partition(_REPLY)
    if not shown:
        raise ValueError("the template does not show replies as they are")
    ids = tokenizer.encode(after, add_special_tokens=False)
    if not ids:
        raise ValueError("the template puts nothing after a reply")
    return ids[0], tokenizer.convert_ids_to_tokens(ids[0])


def _answers(model: Any, tokenizer: Any, job: dict[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """Return greedy answers, one prompt at a time, and the number of prompts that do not fit."""
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None) or 10**9
    ends = sorted({one for ids in _ends(tokenizer, Path(job["ends"])).values() for one in ids})
    found, num_too_long = [], 0
    for turns in job["prompts"]:
        ids = _prompt_ids(tokenizer, turns)
        room = min(job["max_tokens"], context - len(ids))
        if room < 1 or not ids:
            num_too_long += 1
            continue
        found.append(_answer(model, tokenizer, ids, room, ends))
        sys.stdout.write("answered\n")
        sys.stdout.flush()
    return found, num_too_long


def _prompt_ids(tokenizer: Any, turns: list[dict[str, str]]) -> list[int]:
    if tokenizer.chat_template is not None:
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        return list(tokenizer.encode(text, add_special_tokens=False))
    return list(tokenizer.encode("\n".join(one["content"] for one in turns)))


def _answer(
    model: Any, tokenizer: Any, ids: list[int], room: int, ends: list[int]
) -> dict[str, Any]:
    import torch

    given = torch.tensor([ids], device=model.device)
    with torch.no_grad():
        made = model.generate(
            input_ids=given,
            attention_mask=torch.ones_like(given),
            max_new_tokens=room,
            do_sample=False,
            num_beams=1,
            repetition_penalty=1.0,
            temperature=None,
            top_p=None,
            top_k=None,
            eos_token_id=ends or None,
            pad_token_id=(ends or [0])[0],
            return_dict_in_generate=True,
            output_logits=True,
        )
    answer = made.sequences[0, len(ids) :].tolist()
    logprobs = torch.stack(made.logits)[:, 0].float().log_softmax(-1)
    top = logprobs.topk(min(_TOP, logprobs.shape[-1]))
    return {
        "prompt_ids": ids,
        "token_ids": answer,
        "logprobs": [float(row[one]) for row, one in zip(logprobs, answer, strict=True)],
        "top": [
            list(zip(some.tolist(), values.tolist(), strict=True))
            for some, values in zip(top.indices, top.values, strict=True)
        ],
        "ended": answer[-1] in ends,
        "text": tokenizer.decode(answer, skip_special_tokens=True),
    }


def _settings_facts(
    model: Any, tokenizer: Any, shipped: Any, found: dict[str, Any], job: dict[str, Any]
) -> dict[str, Any]:
    """Return the settings that change answers, and how many greedy answers they change."""
    file = Path(job["ends"]) / _GENERATION
    named = json.loads(file.read_bytes()) if file.is_file() else {}
    facts: dict[str, Any] = {
        "greedy_settings": _set(named, _CHANGING),
        "sampling_settings": _set(named, _SAMPLING),
    }
    if facts["greedy_settings"] and not job["adapter"]:
        try:
            answers = found["answers"]
            changed = [_is_changed(model, tokenizer, shipped, one) for one in answers]
            facts["num_changed"] = sum(changed)
        except (*_OF_TEMPLATES, RuntimeError) as error:
            facts["settings_error"] = f"{type(error).__name__}: {error}"[:500]
    return facts


def _set(named: dict[str, Any], neutral: dict[str, tuple[object, ...]]) -> dict[str, str]:
    return {
        name: str(named[name])[:100]
        for name, values in neutral.items()
        if named.get(name) is not None and named[name] not in values
    }


def _is_changed(model: Any, tokenizer: Any, shipped: Any, answer: dict[str, Any]) -> bool:
    """Return True if the folder's own settings give another greedy answer of the same length."""
    import copy

    import torch

    config = copy.deepcopy(shipped)
    config.do_sample, config.max_length = False, None
    config.temperature = config.top_p = config.top_k = None
    config.max_new_tokens = len(answer["token_ids"])
    given = torch.tensor([answer["prompt_ids"]], device=model.device)
    with torch.no_grad():
        made = model.generate(
            input_ids=given,
            attention_mask=torch.ones_like(given),
            generation_config=config,
            tokenizer=tokenizer,
        )
    return bool(made[0, given.shape[1] :].tolist() != answer["token_ids"])


def _versions() -> dict[str, str]:
    import safetensors
    import torch
    import transformers

    return {one.__name__: str(one.__version__) for one in (torch, transformers, safetensors)}


if __name__ == "__main__":
    main()
