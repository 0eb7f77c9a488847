"""Pairs of stored samples, written as a folder that `dpo.data` reads."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay_shared.clients import JudgeClient
from assay_shared.errors import DatasetError, RoleError
from assay_shared.runs.run_folder import write_json
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import Role
from assay_trainer.curation.partial import partial_folder
from assay_trainer.curation.screen import LeftOutRows, Screen, WhyLeftOut
from assay_trainer.curation.writing import line_of
from assay_trainer.data.governance.manifest import (
    LEFT_OUT,
    PREFERENCES,
    PROMPTS,
    ImportManifest,
    SourceFile,
    digest_of,
)
from assay_trainer.data.governance.test_only import known_prompts
from assay_trainer.data.importers.format import ImportedRow, RowKind
from assay_trainer.data.prompt_hashes import KeyTable
from assay_trainer.pairs.candidates import Candidate, Candidates, read_candidates
from assay_trainer.pairs.judging import (
    AskedPair,
    JudgedPair,
    LabelFinding,
    judge_pairs,
    judged_numbers,
    share_of,
)
from assay_trainer.pairs.lengths import length_numbers
from assay_trainer.pairs.order import PairsOrder
from assay_trainer.pairs.page import write_pages

METRICS = "metrics.json"
Progress = Callable[[int, int], None]


@dataclass
class MadePairs:
    """The pairs of a folder, the judge's word on those it was asked about, and all numbers."""

    kept: list[Candidate] = field(default_factory=list)
    judged: list[JudgedPair] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)


def make_pairs(
    order: PairsOrder, settings: ServiceSettings, report: Progress = lambda done, total: None
) -> MadePairs:
    """Write the folder of an order and return its pairs.

    Raises:
        Conflict: the output exists, or another command writes it.
        InvalidInput: an evaluation cannot be used.
        RoleError: no task is for training.
        DatasetError: a file cannot be read, or no pair is left.
    """
    with partial_folder(order.output) as folder:
        candidates = read_candidates(order.evaluations, order.choice)
        made = MadePairs()
        with (folder / LEFT_OUT).open("w", encoding="utf-8") as file:
            left_out = LeftOutRows(file)
            for path, line, role in candidates.not_for_training:
                left_out.add(path, line, WhyLeftOut("refused", f"is for {role} only", "role"))
            screen = Screen(known_prompts(order.data_folder))
            screened = _screened(candidates, screen, left_out)
            capped = _capped(screened, order, left_out)
            made.kept = _agreed(capped, order, settings, made, left_out, report)
        made.numbers = _numbers(candidates, made, left_out, order)
        if candidates.num_tasks == len(candidates.not_for_training):
            raise RoleError(
                f"none of {candidates.num_tasks} tasks is for training",
                field="EVALUATION",
                hint="assay evaluate --allow-train answers rows for training",
            )
        if not made.kept:
            told = ", ".join(f"{number} {name}" for name, number in _reasons(candidates, left_out))
            raise DatasetError(f"no pair is left: {told or 'no tasks'}", field="EVALUATION")
        _write(folder, order, candidates, made, screen, left_out)
    return made


def _screened(
    candidates: Candidates, screen: Screen, left_out: LeftOutRows
) -> list[tuple[Candidate, str]]:
    """Return the pairs to keep with their lines; the others have a prompt of a test set, or stand
    there already, or cannot be written."""
    found = []
    for one in candidates.found:
        example = _example(one)
        try:
            line = line_of(example, RowKind.PREFERENCES)
            reason = screen.reason(example, one.line)
        except DatasetError as error:
            reason = WhyLeftOut("refused", error.message, error.field)
        if reason is None:
            found.append((one, line))
        else:
            left_out.add(one.samples_file, one.line, reason)
    return found


def _example(one: Candidate) -> ImportedRow:
    question = "\n".join(said.content for said in one.task.messages)
    return ImportedRow(one.task, question, one.pair.rejected.text)


def _capped(
    screened: Sequence[tuple[Candidate, str]], order: PairsOrder, left_out: LeftOutRows
) -> list[Candidate]:
    """Return the pairs within the caps of their types; which ones is decided by the seed."""
    numbers: Counter[str] = Counter()
    places = list(range(len(screened)))
    random.Random(f"{order.seed}/caps of pairs").shuffle(places)
    kept = []
    for place in places:
        one = screened[place][0]
        cap = order.choice.caps.get(one.pair.type)
        if cap is not None and numbers[one.pair.type] >= cap:
            told = f"{cap} pairs of type {one.pair.type} are kept"
            left_out.add(one.samples_file, one.line, WhyLeftOut("capped", told))
            continue
        numbers[one.pair.type] += 1
        kept.append(place)
    return [screened[place][0] for place in sorted(kept)]


def _agreed(
    pairs: list[Candidate],
    order: PairsOrder,
    settings: ServiceSettings,
    made: MadePairs,
    left_out: LeftOutRows,
    report: Progress,
) -> list[Candidate]:
    """Return the pairs whose label the judge agrees with in both orders; all if it is not asked."""
    if not order.judge:
        return pairs
    asked = [
        AskedPair(
            "\n\n".join(said.content for said in one.task.messages),
            one.pair.chosen.text,
            one.pair.rejected.text,
            one.task.reference,
        )
        for one in pairs
    ]
    made.judged = asyncio.run(ask_judge(asked, settings, report))
    kept = []
    for one, found in zip(pairs, made.judged, strict=True):
        if found.agreement is LabelFinding.AGREES:
            kept.append(one)
        else:
            told = f"the judge, asked in both orders: {found.agreement}"
            left_out.add(one.samples_file, one.line, WhyLeftOut("judge", told))
    return kept


async def ask_judge(
    asked: Sequence[AskedPair], settings: ServiceSettings, report: Progress
) -> list[JudgedPair]:
    """Return what the judge service says of pairs."""
    done = 0

    def on_done() -> None:
        nonlocal done
        done += 1
        report(done, len(asked))

    async with JudgeClient.from_settings(settings) as judge:
        return await judge_pairs(judge, asked, on_done)


def _reasons(candidates: Candidates, left_out: LeftOutRows) -> list[tuple[str, int]]:
    return [*candidates.dropped.items(), *left_out.by_kind.items()]


def _numbers(
    candidates: Candidates, made: MadePairs, left_out: LeftOutRows, order: PairsOrder
) -> dict[str, Any]:
    """Return `overall` of metrics.json."""
    kept = made.kept
    prompts = {one.prompt_key for one in kept}
    types = Counter(str(one.pair.type) for one in kept)
    texts = [(one.prompt_key, one.pair.chosen.text, one.pair.rejected.text) for one in kept]
    num_scored = candidates.num_scored_tasks
    with_pair = {(one.evaluation, one.prompt_key) for one in kept}
    found: dict[str, Any] = {
        "num_scored_tasks": num_scored,
        "num_tasks": candidates.num_tasks,
        "num_samples": candidates.num_samples,
        "num_pairs": len(kept),
        "num_prompts": len(prompts),
        "num_not_for_training": len(candidates.not_for_training),
        "tasks_with_pair": share_of(len(with_pair), num_scored),
        "pairs_by_type": dict(sorted(types.items())),
        "dropped": dict(sorted(Counter(dict(_reasons(candidates, left_out))).items())),
    }
    # The scores themselves never contradict a label: only somebody else can.
    asked = judged_numbers(made.judged) if order.judge else {}
    return found | length_numbers(texts) | asked


def _write(
    folder: Path,
    order: PairsOrder,
    candidates: Candidates,
    made: MadePairs,
    screen: Screen,
    left_out: LeftOutRows,
) -> None:
    """Write all files of the folder; refused.jsonl is there already."""
    path = folder / PREFERENCES
    with path.open("w", encoding="utf-8") as rows:
        for one in made.kept:
            rows.write(f"{_line(one)}\n")
    KeyTable().write(folder / PROMPTS, "pairs")
    names = [one.resolve().name for one in order.evaluations]
    ImportManifest(
        format="pairs",
        kind=RowKind.PREFERENCES,
        domain="pairs",
        rubric=", ".join(sorted(candidates.scorers)) or "unknown",
        licence="of the tasks and of the policy",
        source=", ".join(names),
        split="train",
        roles={Role.TRAIN: len(made.kept)},
        num_rows_read=candidates.num_samples,
        count=len(made.kept),
        file=PREFERENCES,
        digest=digest_of(path),
        prompt_hashes=PROMPTS,
        prompt_hashes_digest=digest_of(folder / PROMPTS),
        files=tuple(
            SourceFile(
                name=f"{file.parent.parent.name}/{file.parent.name}/{file.name}",
                num_bytes=file.stat().st_size,
                sha256=digest_of(file),
                num_rows=number,
            )
            for file, number in candidates.files
            if file.exists()
        ),
        left_out=left_out.counts(),
        num_same_prompt=screen.num_same_prompt,
        test_only_sets=screen.known.counts,
        not_searched="pairs of one task share its prompt",
    ).write(folder)
    write_json(folder / METRICS, {"overall": made.numbers})
    write_pages(folder, order.output.name, made.kept, made.numbers, order.num_shown, order.seed)


def _line(one: Candidate) -> str:
    """Return a pair as a line of preferences.jsonl: an imported pair's, with its origin."""
    row = json.loads(line_of(_example(one), RowKind.PREFERENCES))
    pair = one.pair
    row |= {
        "task_id": one.task_id,
        "prompt_format": one.task.prompt_format,
        "reference": one.task.reference,
        "rejection": pair.type,
        "scores": {"chosen": pair.chosen_score, "rejected": pair.rejected_score},
        "samples": {
            "evaluation": one.evaluation,
            "set": one.set,
            "chosen": pair.chosen.index,
            "rejected": pair.rejected.index,
        },
        "components": {"chosen": pair.chosen.components, "rejected": pair.rejected.components},
        "evidence": {"chosen": pair.chosen.details, "rejected": pair.rejected.details},
    }
    return json.dumps(row, ensure_ascii=True)
