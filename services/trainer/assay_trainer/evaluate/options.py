"""From the options of the command line to a job."""

import json
import signal
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import JsonValue
from rich.console import Console

from assay_shared.errors import InvalidInput
from assay_shared.settings.environment import ServiceSettings, read_settings
from assay_shared.settings.run_file import parse_config, read_yaml
from assay_shared.telemetry.logs import quiet_transformers, set_up_logging
from assay_trainer.evaluate.job import EvaluationJob, run_job
from assay_trainer.evaluate.policy.serving import ServeBy
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind

#: Kinds that sample, with their usual number of samples.
_SAMPLED = {
    ProtocolKind.SAMPLED: 4,
    ProtocolKind.BUDGET: 256,
    ProtocolKind.MAJORITY: 4,
    ProtocolKind.REPAIR: 1,
}
_ROUNDS = 3


def run(given: Mapping[str, Any]) -> bool:
    """Evaluate by the command's options; return True if every sample has a score.

    Raises:
        AssayError: an option cannot be used, or something is down; stored samples stay.
    """
    set_up_logging("evaluate", "ERROR")
    quiet_transformers()
    stop_at_sigterm()
    console = Console()
    try:
        return run_job(job_of(given), read_settings(ServiceSettings), console)
    except KeyboardInterrupt:
        console.print("stopped; the same command resumes")
        raise


def stop_at_sigterm() -> None:
    """Let SIGTERM end the command as Ctrl-C does, also if SIGINT was ignored at the start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The event loop takes SIGINT, and cancels the work in order.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))


def job_of(given: Mapping[str, Any]) -> EvaluationJob:
    """Return the job of the command's options by their names.

    Without --server and --answers, the first word is the policy; all other words are sets.

    Raises:
        InvalidInput: an option is missing, or cannot be used.
    """
    words = list(given["places"] or ())
    has_policy = given["server"] is None and given["answers"] is None
    policy = words.pop(0) if words and has_policy else None
    sets = [*(given["sets"] or ()), *words]
    if not sets:
        raise InvalidInput("name at least one set", field="--sets")
    if given["output"] is None:
        raise InvalidInput("name the folder to write", field="--output")
    names = ("output", "steps", "server", "model", "key_variable", "answers", "limit", "submit")
    others = ("limit_seed", "allow_train", "concurrency", "max_failed", "request_timeout")
    return EvaluationJob(
        sets=sets,
        policy=policy,
        protocol=protocol_of(given["protocol_file"], _protocol_fields(given)),
        serve=ServeBy(given["serve"]),
        qa_per_outcome=qa_numbers(given["qa_per_outcome"] or ()),
        **{name: given[name] for name in (*names, *others)},
    )


def _protocol_fields(given: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return the fields of a protocol that the options give; None of the others."""
    same = ("k", "budget_tokens", "max_tokens", "temperature", "top_p", "system", "seed", "rounds")
    named = ("prompt_format", "options", "option_score")
    return {
        "kind": _name(given["protocol"]),
        "visible_tests": given["visible_tests"],
        "feedback_tokens": given["feedback_tokens"],
        "samples_per_task": given["samples"],
        "stop": [one.replace("\\n", "\n") for one in given["stop"] or ()],
        "template_arguments": template_arguments(given["template_argument"] or ()),
        **{name: given[name] for name in same},
        **{name: _name(given[name]) for name in named},
    }


def _name(choice: StrEnum | None) -> str | None:
    return None if choice is None else choice.value


def protocol_of(file: Path | None, given: Mapping[str, JsonValue]) -> Protocol:
    """Return the protocol of a file with the given options over it; options that are None are not.

    The kinds that sample have temperature 1 and 4 samples without a word on them; `budget` takes
    256 samples at most, `sampled` tells pass@1 and pass@n, and `repair` has one sample of 3 rounds.

    Raises:
        ConfigError: a field cannot be used; names it.
    """
    values = dict(read_yaml(file)) if file is not None else {}
    values |= {name: value for name, value in given.items() if value not in (None, [], {})}
    kind = values.get("kind", ProtocolKind.GREEDY)
    if kind in _SAMPLED:
        values.setdefault("temperature", 1.0)
        values.setdefault("samples_per_task", _SAMPLED[ProtocolKind(kind)])
        if kind == ProtocolKind.SAMPLED and "k" not in values:
            values["k"] = sorted({1, int(str(values["samples_per_task"]))})
    if kind == ProtocolKind.REPAIR:
        values.setdefault("rounds", _ROUNDS)
    return parse_config(Protocol, values, source=str(file or "the options"))


def template_arguments(given: Sequence[str]) -> dict[str, JsonValue]:
    """Return the arguments of key=value texts; a value of JSON is read as such.

    Raises:
        InvalidInput: a text has no key.
    """
    found: dict[str, JsonValue] = {}
    for one in given:
        key, equals, text = one.partition("=")
        if not equals or not key:
            raise InvalidInput(f"{one!r} is not key=value", field="--template-argument")
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
    return found


def qa_numbers(given: Sequence[str]) -> dict[str, int]:
    """Return the QA samples of each outcome by set, from texts such as 10 and humaneval=6.

    Raises:
        InvalidInput: a text is not a number, or a set with one.
    """
    found = {"": 10}
    for one in given:
        name, equals, text = one.rpartition("=")
        if not text.isdecimal() or (equals and not name):
            raise InvalidInput(f"{one!r} is neither 10 nor set=10", field="--qa-per-outcome")
        found[name] = int(text)
    return found
