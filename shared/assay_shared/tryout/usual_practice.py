"""Graders as they are commonly written: they really run, and a failure of any kind is a 0.

Programs: the answer and the tests in one script; an exit code of 0 is a reward of 1. Numbers: the
last box of the answer, or else its last number, equals the reference as text. Judged texts: one
request to the model; the first verdict word in its reply counts.
"""

import re

import aiohttp

from assay_shared.answers.whole_program import whole_program
from assay_shared.clients import SandboxClient
from assay_shared.errors import AssayError
from assay_shared.types import (
    AssertCase,
    CallCase,
    ExecutionRequest,
    Label,
    Limits,
    StdinCase,
    Task,
)
from assay_shared.verdicts.compared import GivenReward

#: For people: the grader of each rubric.
PRACTICES = {
    "code.sparse": "answer and asserts in one script, exit code 0 earns 1",
    "math": "the last box, else the last number, compared as text",
    "qa": "one request, the first verdict word in the reply, else 0",
}
_TIMEOUT = aiohttp.ClientTimeout(total=20.0)
_BOX = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_VERDICT = re.compile(r"\b(CORRECT|INCORRECT)\b")
_MOST_SHOWN = 160
_PROMPT = """Question: {question}
Reference answer: {reference}
Student's answer: {answer}
Is the student's answer right? Reply with CORRECT or INCORRECT."""


class UsualPractice:
    """The graders, with a sandbox to run programs in, and a model to ask."""

    def __init__(self, sandbox: SandboxClient, model_url: str, model: str) -> None:
        """Store the sandbox's client, and address and name of the model."""
        self._sandbox = sandbox
        self._model_url = model_url
        self._model = model

    async def reward(self, task: Task, text: str) -> GivenReward:
        """Return the reward that usual practice trains on; never without a value."""
        match task.rubric:
            case "math":
                return last_value(task, text)
            case "qa":
                return await self._judged(task, text)
            case _:
                return await self._program(task, text)

    async def _program(self, task: Task, text: str) -> GivenReward:
        limits = Limits.model_validate(task.checks.get("limits", {}))
        request = ExecutionRequest(code=script_of(task, text), limits=limits)
        try:
            result = await self._sandbox.execute(request)
        except AssayError as error:
            return GivenReward(0.0, "exception", f"{type(error).__name__}: {error.message}")
        if result.exit_code == 0:
            return GivenReward(1.0, "exit code 0")
        last = (result.stderr.strip().splitlines() or [result.message])[-1]
        return GivenReward(0.0, f"exit code {result.exit_code}", last[:_MOST_SHOWN])

    async def _judged(self, task: Task, text: str) -> GivenReward:
        prompt = _PROMPT.format(question=task.prompt, reference=task.reference, answer=text)
        body = {"model": self._model, "messages": [{"role": "user", "content": prompt}]}
        try:
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT) as session,
                session.post(f"{self._model_url}/chat/completions", json=body) as answer,
            ):
                answer.raise_for_status()
                reply = (await answer.json())["choices"][0]["message"]["content"]
        except (aiohttp.ClientError, TimeoutError, ValueError, LookupError) as error:
            return GivenReward(0.0, "exception", f"{type(error).__name__}: {error}"[:_MOST_SHOWN])
        return first_verdict(reply)


def script_of(task: Task, text: str) -> str:
    """Return the answer's program with the task's tests below it."""
    lines = []
    for case in task.tests:
        match case:
            case CallCase():
                arguments = ", ".join(map(repr, case.args))
                lines.append(f"assert {case.function}({arguments}) == {case.expected!r}")
            case AssertCase():
                lines.append(case.code)
            case StdinCase():
                raise NotImplementedError("given tasks have no cases of standard input")
    return "\n\n".join([whole_program(task, text), "\n".join(lines)]) + "\n"


def last_value(task: Task, text: str) -> GivenReward:
    """Return 1 if the last box in the text, or else the last number, is the reference's text."""
    found = _BOX.findall(text) or _NUMBER.findall(text)
    if not found:
        return GivenReward(0.0, "no value found")
    return GivenReward(float(found[-1] == task.reference), "last value", f"found {found[-1]}")


def first_verdict(reply: str) -> GivenReward:
    """Return 1 if the first verdict word in the reply is CORRECT."""
    found = _VERDICT.search(reply)
    if found is None:
        return GivenReward(0.0, "no verdict", f"the reply has {len(reply)} characters")
    return GivenReward(float(found[1] == Label.CORRECT), "first verdict word", found[1])
