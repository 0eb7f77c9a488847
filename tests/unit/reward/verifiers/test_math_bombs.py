"""Answers made to be slow: for every text, measuring has a bound."""

import math
import time
from contextlib import suppress
from typing import Any

import psutil
import pytest

from assay_reward.answers.constraints.instructions import KINDS, NUM_VARIANTS, follows_loosely
from assay_reward.formats.openrlhf import answer_of
from assay_reward.or_debug.episode.actions import InvalidTurn, parse_action
from assay_reward.verifiers import VERIFIERS
from assay_reward.verifiers.verifier import Measurement
from assay_shared.answers.formulas.size import why_too_large
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.answers.whole_program import whole_program
from assay_shared.errors import InvalidInput, TooHard
from tests.support.fakes import make_task
from tests.support.reward.measuring import assert_too_hard, find
from tests.unit.reward.answers.constraints.test_instructions import CASES

LENGTH = 1_000_000
#: Processor time for a text of 100,000 characters: a hundred times what a linear reading takes, and
#: a hundredth of what a quadratic one does.
PART, PART_CPU_S = 100_000, 0.5
#: The same where a model tells the language, which is always done in a worker process.
MODEL_CPU_S = 3.0
UNITS = {
    "newlines": "\n",
    "spaces": " ",
    "marks": "!",
    "dots": ".",
    "sentences": "a. ",
    "stars": "*",
    "bullets": "*\n",
    "highlights": "*a*",
    "brackets": "[",
    "placeholders": "[a",
    "titles": "<<",
    "tags": "<answer>",
    "fences": "```\n",
    "backticks": "`",
    "boxes": "\\boxed{",
    "numbers": "#### 1\n",
    "digits": "1,",
    "quotes": '"',
    "letters": "a",
    "words": "a the ",
    "claims": "the answer is ",
    "postscripts": "p.",
    "accents": "é",
    "astral": "\U0001f600",
    "combining": "a\u0301",
    "nested JSON": '{"a":[',
    "tokens": "</s>",
    "nulls": "\x00",
}
LEADS = ("", "The answer is", "```json")
ENDS = ("", "x")


def texts(length: int) -> dict[str, str]:
    found = {}
    for name, unit in UNITS.items():
        body = (unit * (length // len(unit) + 1))[:length]
        for lead in LEADS:
            for end in ENDS:
                found[f"{lead} {name} {end}"] = lead + body + end
    return found


ARGUMENTS = {name: kwargs for name, kwargs, *_ in CASES}
CHECKS: dict[str, dict[str, Any]] = {
    "choice": {"checks": {"choice": {"options": ["Paris", "Rome"], "answer": "B"}}},
    "constraints": {
        "checks": {
            "constraints": {
                "instruction_id_list": list(ARGUMENTS),
                "kwargs": list(ARGUMENTS.values()),
            }
        }
    },
    "exact_match": {"reference": "Paris"},
    "f1": {"reference": "Paris"},
    "json_schema": {"checks": {"json_schema": {"schema": {"items": {"$ref": "#"}}}}},
    "language": {"options": {"languages": ["en"]}},
    "math": {"reference": "18"},
    "pattern": {"checks": {"pattern": {"pattern": r"(\s|!|a|\*)+$"}}, "options": {"timeout_s": 1}},
    "repetition": {},
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.slow
def test_a_constraint_reads_a_text_in_time_that_grows_with_its_length(name: str) -> None:
    constraint = KINDS[name].model_validate(ARGUMENTS[name])
    slow = {}
    for kind, text in texts(PART).items():
        began = time.process_time()
        constraint.holds(text)
        took_s = time.process_time() - began
        if took_s > (PART_CPU_S if math.isfinite(constraint.reads) else MODEL_CPU_S):
            slow[kind] = took_s
    assert not slow


def test_a_loose_reading_takes_no_more_than_its_variants() -> None:
    quoted = KINDS["startend:quotation"].model_validate({})
    began = time.process_time()
    for text in texts(PART).values():
        follows_loosely(quoted, text)
    assert time.process_time() - began < NUM_VARIANTS * PART_CPU_S


def test_every_verifier_of_texts_is_tried() -> None:
    assert set(CHECKS) == {name for name, one in VERIFIERS.items() if one.reads is not None} | {
        "pattern"
    }


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.slow
async def test_a_verifier_of_long_texts_takes_little_of_its_own_process(name: str) -> None:
    given = dict(CHECKS[name])
    for unit in ("\n", "!", "[", "```\n", "a the ", "é", '{"a":['):
        text = "The answer is" + (unit * LENGTH)[:LENGTH] + "x"
        began = time.process_time()
        (found,) = await find(VERIFIERS[name], text, cpu_s=0.5, **given)
        took_s = time.process_time() - began
        assert took_s < 0.2, f"{unit!r} takes {took_s:.2f} s of the process that answers others"
        if not isinstance(found, Measurement):
            assert_too_hard(found)


@pytest.mark.parametrize("name", CHECKS)
async def test_an_answer_over_a_million_characters_is_too_hard(name: str) -> None:
    (found,) = await find(VERIFIERS[name], "a " * 2**20, **CHECKS[name])
    assert_too_hard(found)


async def test_json_that_is_read_twice_at_each_level_is_too_hard() -> None:
    part = {"properties": {"a": {"$ref": "#"}}, "required": ["b"]}
    checks = {"json_schema": {"schema": {"anyOf": [part, part]}}}
    text = '{"a":' * 40 + "1" + "}" * 40
    (found,) = await find(VERIFIERS["json_schema"], text, checks=checks, cpu_s=0.3)
    assert_too_hard(found)


@pytest.mark.slow
def test_programs_replies_and_remote_queries_are_found_in_linear_time() -> None:
    task = make_task("t", code_prefix="def f(x):\n")
    began = time.process_time()
    for text in texts(PART).values():
        whole_program(task, text)
        answer_of(f"prompt{text}", "prompt")
        for reply in (text, f"Action: SUBMIT({text})"):
            with suppress(InvalidTurn):
                parse_action(reply)
        why_too_large(text[:2000])
    assert time.process_time() - began < len(texts(1)) * PART_CPU_S


#: What is hard to compare for other reasons than the size of its numbers.
HARD = (
    (r"\sum_{k=1}^{1000} \frac{1}{k^{1000}}", "5"),
    (r"\frac{x^{1000}-1}{x-1}", r"\sum_{k=0}^{999} x^k"),
    ("(x+y)^{4000}=1", "(y+x)^{4000}-1=0"),
    (",".join(f"x+{n}" for n in range(64)), ",".join(f"{n}+x" for n in range(63, -1, -1))),
    (r"\lfloor 10^{300}\pi \rfloor", r"\tan(2^{5000})"),
)


@pytest.mark.slow
async def test_no_formula_takes_more_processor_time_than_is_promised() -> None:
    cpu_s, slow = 0.3, {}
    symbolic = Symbolic(cpu_s)
    try:
        await symbolic.equal("x+1", "1+x")
        for pair in HARD:
            began_s = children_cpu_s()
            with suppress(TooHard, InvalidInput):
                await symbolic.equal(*pair)
            # Once for the answer, and once to find out whether the reference is to blame.
            if children_cpu_s() - began_s > 2 * (0.06 + cpu_s) + 0.3:
                slow[pair] = children_cpu_s() - began_s
    finally:
        symbolic.close()
    assert not slow


def children_cpu_s() -> float:
    """Return the processor time of this process's children, and of theirs, in seconds."""
    own = psutil.Process()
    found = 0.0
    for process in own.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            found += times.user + times.system + times.children_user + times.children_system
    return found


@pytest.mark.parametrize(
    "formula",
    [
        "9^{9^{9^9}}",
        "10^{10^{10}}",
        "9**9**9",
        r"x^{9^9}",
        "2^{100000}",
        "(x+1)^{100000}",
        "100000!",
        "((10!)!)!",
        *(
            "(10^9)!",
            r"\left(10^{9}\right)!",
            "10⁹!",
            r"(3000+3000)!",
            r"\frac{(10^6)!}{(10^6-1)!}",
        ),
        *(r"\binom{10^9}{10^8}", r"{1000000 \choose 500000}", "{}_{1000000}C_{500000}"),
        *(r"2^{\lfloor e^{20} \rfloor}", "2^{|10^9|}", "(2^{1000})^{1000}", "(10^5)^{10^5}"),
        *(r"\sqrt{2}^{10^9}", r"\exp(\exp(100))", r"\cosh(10^6)", "0.5^{1000000}", "3^{-1000000}"),
        *(r"\sum_{k=1}^{1000} (k^5)!", r"\prod_{k=1}^{1000} k^{1000}", "(1+i)^{100000}"),
        "9" * 1000,
        ",".join(map(str, range(400))),
        "(" * 100 + "1" + ")" * 100,
        "x" * 3000,
    ],
)
def test_a_formula_that_is_too_large_is_known_by_its_text(formula: str) -> None:
    assert why_too_large(formula) is not None


@pytest.mark.parametrize(
    "formula",
    [
        *(
            "2^{2016}",
            "10^{100}",
            r"e^{x^2}",
            "2^{2^{2^2}}",
            "10!",
            "1,2,3",
            r"3^{\frac{1}{3}}",
            "0^0",
        ),
        *(r"\frac{100!}{98!}", r"\binom{2024}{1012}", r"\binom{10^9}{2}", "1^{1000000}", "1000!"),
        *(r"\log_{2} 1000000", r"\sum_{k=1}^{100} k^2", "(-1)^{2023}", "x_{100000}", r"\sin(10^9)"),
    ],
)
def test_a_usual_formula_is_not_too_large(formula: str) -> None:
    assert why_too_large(formula) is None
