"""The winner of an ablation: an arm that is shown to be better than the baseline."""

import json

from assay_shared.errors import NotFound
from assay_shared.runs.run_folder import write_json
from assay_trainer.ablation.ablation_folder import AblationFolder
from assay_trainer.ablation.judging.findings import AblationReport, ChangeRow, JudgedVerdict
from assay_trainer.ablation.report.words import failed
from assay_trainer.ablation.running import start_weights
from assay_trainer.curriculum.winner import WINNER, AblationWinner


def winner_of(
    ranking: list[str], baseline: str, to_baseline: list[ChangeRow], metric: str
) -> tuple[str | None, str]:
    """Return the winner with the reason; None if no arm is shown to be better than the baseline."""
    if not ranking:
        return None, "no arm is ranked"
    best = ranking[0]
    if best == baseline:
        return None, f"no arm has a better {metric} than the baseline, {baseline}"
    row = next((r for r in to_baseline if r.arm == best and r.metric == metric), None)
    if row is None:
        return None, f"{best} and {baseline} have no {metric} in common"
    told = f"{best} has {metric} {row.change.value:+.4f} against {baseline}"
    told = f"{row.verdict}: {told}, p {row.p_corrected:.3g} after Holm's correction"
    if case := failed(row.failed):
        told += f"; {case}"
    return best if row.verdict is JudgedVerdict.PASS else None, told


def write_winner(folder: AblationFolder, report: AblationReport) -> None:
    """Write winner.json, which `curriculum.from` of a run file reads."""
    plan = folder.plan()
    overrides = {arm.name: arm.overrides for arm in plan.arms}
    told = AblationWinner(
        arm=report.winner,
        verdict=report.winner_reason,
        start_folder=start_weights(folder).relative_to(folder.path),
        digest=report.start_digest,
        overrides=overrides.get(report.winner or "", {}),
        arms=overrides,
    )
    values = told.model_dump(mode="json") | {"settings_digest": told.computed_digest}
    write_json(folder.path / WINNER, values)


def winner_text(folder: AblationFolder) -> str:
    """Write winner.json again and return its text.

    Raises:
        NotFound: the ablation has no report yet.
    """
    if not folder.report.exists():
        raise NotFound(
            f"{folder.path} has no report yet", hint=f"assay ablate --resume {folder.path}"
        )
    write_winner(folder, AblationReport.model_validate_json(folder.report.read_bytes()))
    return json.dumps(json.loads((folder.path / WINNER).read_text()), indent=1)
