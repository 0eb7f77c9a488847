"""The options of the command."""

from pathlib import Path

import pytest

from assay_shared.errors import ConfigError, InvalidInput
from assay_shared.types import PromptFormat
from assay_trainer.evaluate.cli_options import (
    FormatName,
    KindName,
    OptionsName,
    ScoreName,
    ServeName,
)
from assay_trainer.evaluate.options import job_of, protocol_of, qa_numbers, template_arguments
from assay_trainer.evaluate.policy.serving import ServeBy
from assay_trainer.evaluation.records import protocol as protocols

_NONE = dict.fromkeys(
    [
        *("places", "sets", "output", "steps", "server", "model", "answers", "protocol"),
        *("protocol_file", "samples", "k", "budget_tokens", "max_tokens", "temperature", "top_p"),
        *("stop", "system", "template_argument", "prompt_format", "options", "option_score"),
        *(
            "rounds",
            "visible_tests",
            "feedback_tokens",
            "seed",
            "limit",
            "qa_per_outcome",
            "submit",
        ),
    ]
)
_DEFAULTS = {
    **_NONE,
    "key_variable": "K",
    "serve": ServeName.AUTO,
    "allow_train": False,
    "concurrency": 64,
    "max_failed": 32,
    "limit_seed": 0,
    "request_timeout": 300.0,
    "output": Path("out"),
}


def test_names_on_the_command_line_are_the_protocols_own() -> None:
    for names, own in (
        (KindName, protocols.ProtocolKind),
        (FormatName, PromptFormat),
        (OptionsName, protocols.OptionForm),
        (ScoreName, protocols.OptionScore),
        (ServeName, ServeBy),
    ):
        assert [*map(str, names)] == [*map(str, own)]


def test_the_first_word_is_the_policy_and_the_others_are_sets() -> None:
    job = job_of(_DEFAULTS | {"places": ["m", "b", "c"], "sets": ["a"]})
    assert (job.policy, job.sets) == ("m", ["a", "b", "c"])
    of_server = job_of(_DEFAULTS | {"places": ["b"], "sets": ["a"], "server": "http://h/v1"})
    assert (of_server.policy, of_server.sets) == (None, ["a", "b"])
    with pytest.raises(InvalidInput, match="name at least one set"):
        job_of(_DEFAULTS | {"places": ["m"]})
    with pytest.raises(InvalidInput, match="exactly one of POLICY, --server and --answers"):
        job_of(_DEFAULTS | {"sets": ["a"]})
    with pytest.raises(InvalidInput, match="--model: it goes with --server"):
        job_of(_DEFAULTS | {"places": ["m", "a"], "model": "x"})


def test_options_change_a_protocols_file(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("kind: sampled\nsamples_per_task: 8\nmax_tokens: 100\nk: [1, 8]\n")

    found = protocol_of(file, {"max_tokens": 200, "top_p": None, "stop": []})

    assert (found.kind, found.samples_per_task, found.max_tokens) == ("sampled", 8, 200)
    assert (found.k, found.temperature) == ((1, 8), 1.0)
    assert found.digest != protocol_of(file, {}).digest


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(ConfigError, match="greedy has one answer a task"):
        protocol_of(None, {"samples_per_task": 4})
    with pytest.raises(ConfigError, match="budget_tokens goes with kind budget"):
        protocol_of(None, {"kind": "budget"})
    with pytest.raises(ConfigError, match="pass@8 needs as many samples_per_task"):
        protocol_of(None, {"kind": "sampled", "samples_per_task": 4, "k": [8]})
    with pytest.raises(ConfigError, match="do not reach raw prompts"):
        protocol_of(None, {"prompt_format": "raw", "system": "s"})


def test_another_seed_of_the_samples_keeps_the_limited_tasks() -> None:
    job = job_of(_DEFAULTS | {"places": ["m", "a"], "seed": 5, "limit": 3})
    assert (job.protocol.seed, job.limit, job.limit_seed) == (5, 3, 0)
    other = job_of(_DEFAULTS | {"places": ["m", "a"], "limit": 3, "limit_seed": 2})
    assert (other.protocol.seed, other.limit_seed) == (0, 2)


def test_sampled_answers_tell_pass_at_1_and_at_all_of_them() -> None:
    assert protocol_of(None, {"kind": "sampled", "samples_per_task": 8}).k == (1, 8)
    assert protocol_of(None, {"kind": "budget", "budget_tokens": 9}).samples_per_task == 256


def test_template_arguments_are_json_or_text() -> None:
    found = template_arguments(["enable_thinking=false", "name=x=y"])
    assert found == {"enable_thinking": False, "name": "x=y"}
    with pytest.raises(InvalidInput, match="'thinking' is not key=value"):
        template_arguments(["thinking"])


def test_qa_numbers_are_for_all_sets_or_for_one() -> None:
    assert qa_numbers(["6", "humaneval=3"]) == {"": 6, "humaneval": 3}
    with pytest.raises(InvalidInput, match="'=3' is neither 10 nor set=10"):
        qa_numbers(["=3"])
