"""A verification as the command asks for it: serve, ask what is missing, judge, write."""

import asyncio
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from assay_shared.errors import Conflict
from assay_shared.runs.own_folder import check_own_folder
from assay_shared.runs.run_folder import write_atomically
from assay_shared.runs.run_lock import held
from assay_shared.runtime.temporary_folder import TemporaryFolder
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import PolicyVersion
from assay_shared.types.wire import Wire
from assay_trainer.evaluate.policy.checkpoints import servable_folder
from assay_trainer.evaluate.policy.places import find_policies
from assay_trainer.evaluate.policy.serving import ServeBy, served
from assay_trainer.evaluation.records.evaluation_record import EvaluatedPolicy
from assay_trainer.verification.asking import ask_missing, stored_replies
from assay_trainer.verification.channel import judge_channel
from assay_trainer.verification.model_tokens import ModelTokens, read_tokens
from assay_trainer.verification.probes import ChannelProbe, probes_of, read_raw_prompts
from assay_trainer.verification.profile import profile_of
from assay_trainer.verification.sentinels import Sentinel, sentinels
from assay_trainer.verification.verification_report import (
    TokenFacts,
    Verification,
    print_verification,
    write_verification,
)

_INPUTS = "inputs.json"


@dataclass(frozen=True)
class VerifyOrder:
    """The options of the command."""

    policy: str
    output: Path
    prompts: Path | None = None
    per_kind: int = 40
    max_tokens: int = 96
    concurrency: int = 32
    serve: str = ServeBy.AUTO


class VerifyInputs(Wire):
    """inputs.json: a folder with other inputs is not resumed."""

    policy: EvaluatedPolicy
    #: SHA-256 of the requests.
    requests: str


def verify_policy(order: VerifyOrder, settings: ServiceSettings, console: Console) -> bool:
    """Verify, write and print the results; return True if the channel is clean.

    Raises:
        AssayError: an option cannot be used, or something is down; stored replies stay.
    """
    given = read_raw_prompts(order.prompts)
    (place,) = find_policies(order.policy, None)
    check_own_folder(
        order.output,
        _INPUTS,
        "is not a verification",
        "name a new or an empty folder, or that of a verification to resume",
    )
    order.output.mkdir(parents=True, exist_ok=True)
    with held(order.output), TemporaryFolder("assay-policy-") as scratch:
        folder = servable_folder(place, scratch)
        tokens = read_tokens(folder)
        asked = sentinels(order.per_kind)
        probes = probes_of(asked, given, tokens, order.max_tokens)
        policy = place.facts(folder)
        _begin(order.output, policy, probes)
        if _is_missing(probes, order.output):
            with served(folder, str(policy.digest), ServeBy(order.serve), settings) as (
                own,
                version,
            ):
                _ask(order, probes, own, version, console)
        found = _judged(order, policy, asked, probes, tokens)
    report = write_verification(found, order.output)
    print_verification(found, report, console)
    return found.channel.verdict == "CLEAN"


def _begin(output: Path, policy: EvaluatedPolicy, probes: Sequence[ChannelProbe]) -> None:
    """Store the inputs, or check that the folder has the same.

    Raises:
        Conflict: the folder is of another policy, or of other prompts.
    """
    requests = [(one.key, one.request.model_dump(mode="json")) for one in probes]
    digest = hashlib.sha256(json.dumps(requests).encode()).hexdigest()
    file = output / _INPUTS
    if not file.exists():
        inputs = VerifyInputs(policy=policy, requests=digest)
        write_atomically(file, inputs.model_dump_json(indent=2) + "\n")
        return
    stored = VerifyInputs.model_validate_json(file.read_bytes())
    if stored.policy.digest != policy.digest:
        raise Conflict(
            f"{output} verifies another policy: {stored.policy.name}",
            field="POLICY",
            hint="name a new folder",
        )
    if stored.requests != digest:
        raise Conflict(f"{output} has other prompts or options", hint="name a new folder")


def _is_missing(probes: Sequence[ChannelProbe], output: Path) -> bool:
    return bool({one.key for one in probes} - set(stored_replies(output)))


def _ask(
    order: VerifyOrder,
    probes: Sequence[ChannelProbe],
    settings: ServiceSettings,
    version: PolicyVersion,
    console: Console,
) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bars:
        bar = bars.add_task("inputs", total=len(probes))
        bars.update(bar, completed=len(stored_replies(order.output)))

        def on_reply() -> None:
            bars.advance(bar)

        asking = ask_missing(probes, order.output, settings, version, order.concurrency, on_reply)
        asyncio.run(asking)


def _judged(
    order: VerifyOrder,
    policy: EvaluatedPolicy,
    asked: Sequence[Sentinel],
    probes: Sequence[ChannelProbe],
    tokens: ModelTokens,
) -> Verification:
    replies = stored_replies(order.output)
    return Verification(
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        policy=policy,
        tokens=TokenFacts(
            bos=None if tokens.bos is None else tokens.control.get(tokens.bos),
            has_chat_template=tokens.has_template,
            control_tokens=dict(sorted((name, one) for one, name in tokens.control.items())),
        ),
        channel=judge_channel(probes, replies, tokens),
        behaviour=profile_of(asked, replies, tokens),
    )
