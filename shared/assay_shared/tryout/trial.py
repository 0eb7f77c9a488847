"""A trial from start to end: services, both rewards of each answer, progress in the terminal."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from assay_shared.clients import RewardClient, SandboxClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.tryout.given import TrialGroup
from assay_shared.tryout.judging_model import NAME
from assay_shared.tryout.scoring import OnScored, Scoring
from assay_shared.tryout.trial_services import SERVICES, TrialServices, trial_services
from assay_shared.tryout.usual_practice import UsualPractice
from assay_shared.verdicts.compared import ComparedGroup


@dataclass(frozen=True)
class ScoredTrial:
    """The scored groups, and the seconds of the services' start and of all of it."""

    groups: list[ComparedGroup]
    start_s: float
    took_s: float


def run_trial(groups: Sequence[TrialGroup], console: Console) -> ScoredTrial:
    """Start the services, score the groups, stop the services; return the result.

    Raises:
        InfrastructureError: a service did not start or did not answer; says where its log is.
    """
    began = time.monotonic()
    bars = Progress(
        TextColumn("{task.description:<32}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )
    num_answers = sum(len(group.answers) for group in groups)
    with bars:
        starting = bars.add_task("start sandbox, judge and reward", total=len(SERVICES))
        scoring = bars.add_task("score answers, twice", total=num_answers)

        def on_scored(number: int) -> None:
            bars.advance(scoring, number)

        with trial_services(groups, lambda name, url: bars.advance(starting)) as services:
            start_s = time.monotonic() - began
            scored = asyncio.run(_score(services, groups, on_scored))
    return ScoredTrial(scored, start_s, time.monotonic() - began)


async def _score(
    services: TrialServices, groups: Sequence[TrialGroup], on_scored: OnScored
) -> list[ComparedGroup]:
    async with (
        RewardClient(services.url("reward"), token=services.token) as reward,
        # Usual practice asks once.
        SandboxClient(services.url("sandbox"), token=services.token, retry=NO_RETRY) as sandbox,
    ):
        usual = UsualPractice(sandbox, services.model.url("usual"), NAME)
        return await Scoring(services, reward, usual, on_scored).score_all(groups)
