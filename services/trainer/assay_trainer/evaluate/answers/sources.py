"""What answers the tasks of an evaluation: a served policy, a server's model, or stored answers."""

import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from assay_shared.clients import InferenceClient, RetryBudget, Timeouts
from assay_shared.errors import InvalidInput
from assay_shared.interfaces import Generator
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import GenerateRequest, Message, PolicyVersion, SamplingParams
from assay_trainer.evaluate.answers.generators import (
    StoredAnswer,
    StoredGenerator,
    Templated,
    answers_to,
    read_answers,
)
from assay_trainer.evaluate.answers.likelihood import OptionReader, ServerReader, ServiceReader
from assay_trainer.evaluate.answers.server import OpenAIServer, ServerGenerator
from assay_trainer.evaluate.playing.player import Answering, PlayUnit
from assay_trainer.evaluate.sets import OpenSet
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind

RETRY = RetryBudget(attempts=20, total_s=45.0, absent_s=10.0)
#: The samples of episodes are asked for one by one.
MAX_CONNECTIONS = 1024


class _Inference(InferenceClient):
    max_connections = MAX_CONNECTIONS


@dataclass(frozen=True)
class Source:
    """A source of answers, and of an option's likelihood where it has one."""

    answering: Answering
    reader: OptionReader | None
    engine: Mapping[str, str]


@dataclass(frozen=True)
class _Served:
    client: InferenceClient
    template: Mapping[str, JsonValue]
    version: PolicyVersion
    asks_each: bool = False

    def generator(self, unit: PlayUnit, set_name: str) -> Generator:
        return Templated(self.client, self.template)

    def uncounted(self, unit: PlayUnit, set_name: str) -> Collection[int]:
        return ()


@dataclass(frozen=True)
class _OfServer:
    server: OpenAIServer
    model: str
    template: dict[str, JsonValue]
    version: None = None
    asks_each: bool = True

    def generator(self, unit: PlayUnit, set_name: str) -> Generator:
        known = [index - unit.first for index in unit.known]
        return ServerGenerator(self.server, self.model, self.template, known)

    def uncounted(self, unit: PlayUnit, set_name: str) -> Collection[int]:
        return ()


@dataclass(frozen=True)
class _Stored:
    answers: Mapping[tuple[str, str], Sequence[StoredAnswer]]
    version: None = None
    asks_each: bool = False

    def generator(self, unit: PlayUnit, set_name: str) -> Generator:
        return StoredGenerator(self.answers[set_name, unit.task.id], unit.first)

    def uncounted(self, unit: PlayUnit, set_name: str) -> Collection[int]:
        answers = self.answers[set_name, unit.task.id]
        return {index for index in unit.indices if answers[index].num_tokens is None}


@asynccontextmanager
async def of_service(
    settings: ServiceSettings, version: PolicyVersion, protocol: Protocol
) -> AsyncIterator[Source]:
    """Yield the source that samples from the inference service."""
    async with _Inference.from_settings(settings, retry=RETRY) as client:
        facts = await client.health()
        engine: dict[str, str] = {}
        for name in ("engine", "device"):
            if name in facts:
                engine[name] = str(facts[name])
        template = protocol.template_arguments
        await _check_template(Templated(client, template), protocol)
        reader = ServiceReader(client, template, version)
        yield Source(_Served(client, template, version), reader, engine)


@asynccontextmanager
async def of_server(
    url: str,
    model: str | None,
    key_variable: str,
    protocol: Protocol,
    timeout_s: float = 300.0,
) -> AsyncIterator[Source]:
    """Yield the source that samples from an OpenAI-compatible server.

    Raises:
        InvalidInput: no model is named, and the server has several.
    """
    token = os.environ.get(key_variable) or None
    timeouts = Timeouts(read_s=timeout_s, total_s=timeout_s)
    server = OpenAIServer(url, token=token, timeouts=timeouts, retry=RETRY)
    async with server:
        if model is None:
            model = _only_one(await server.models())
        source = _OfServer(server, model, protocol.template_arguments)
        await _check_template(ServerGenerator(server, model, source.template), protocol)
        yield Source(source, ServerReader(server, model), {"engine": "server", "model": model})


async def _check_template(generator: Generator, protocol: Protocol) -> None:
    """Ask for a token, so that an argument unknown to the chat template is refused at once.

    Raises:
        InvalidInput: the template does not read an argument.
    """
    if protocol.template_arguments:
        await generator.generate(
            GenerateRequest(
                messages=(Message(role="user", content="?"),),
                sampling=SamplingParams(max_tokens=1, temperature=0.0),
            )
        )


def _only_one(models: list[str]) -> str:
    if len(models) != 1:
        shown = ", ".join(models[:10]) or "none"
        raise InvalidInput(f"which of the server's models? It has {shown}", field="--model")
    return models[0]


def of_file(path: Path, sets: Sequence[OpenSet], protocol: Protocol) -> tuple[Source, int]:
    """Return the source of stored answers, and the number of answers to no task of the sets.

    Raises:
        InvalidInput: the protocol cannot use stored answers, or a task has another number of them.
        DatasetError: a line cannot be used.
    """
    if protocol.kind in (ProtocolKind.BUDGET, ProtocolKind.LIKELIHOOD, ProtocolKind.REPAIR):
        raise InvalidInput(
            f"{protocol.kind} needs a policy, not stored answers",
            field="protocol.kind",
            hint="greedy, sampled and majority take them",
        )
    found = read_answers(path)
    answers = {}
    for one in sets:
        for task in one.tasks:
            if task.environment is not None:
                raise InvalidInput(f"{task.id} of {one.name} is an episode", field="--answers")
            key = one.name, task.id
            answers[key] = answers_to(found, *key, protocol.samples_per_task)
    num_unused = sum(map(len, found.values())) - sum(map(len, answers.values()))
    return Source(_Stored(answers), None, {}), num_unused
