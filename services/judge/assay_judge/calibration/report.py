"""The report of a calibration: calibration.json, report.md and figures."""

from collections.abc import Iterator
from pathlib import Path

from assay_judge.calibration import figures
from assay_judge.calibration.estimates import number, percent
from assay_judge.calibration.log import LOG, RECORD, REPORT
from assay_judge.calibration_record import Agreement, Calibration, JudgeCalibration, McNemar
from assay_shared.runs.run_folder import write_atomically
from assay_shared.text.markdown import table


def write_report(folder: Path, calibration: Calibration) -> None:
    """Write the report, the record and the figures; the log exists already."""
    pictures = figures.draw(calibration, folder / "figures")
    text = "\n".join(_lines(calibration, pictures))
    write_atomically(folder / REPORT, text + "\n")
    write_atomically(folder / RECORD, calibration.model_dump_json(indent=2) + "\n")


def summary_rows(calibration: Calibration) -> list[list[str]]:
    """Return a row per judge: name, kappa, accuracy, error rates, coverage."""
    return [[judge.judge, *_agreement_cells(judge.overall)] for judge in calibration.judges]


SUMMARY = ("judge", "kappa", "accuracy", "false positives", "false negatives", "decided")


def _lines(calibration: Calibration, pictures: dict[str, str]) -> Iterator[str]:
    yield "# Calibration of " + ", ".join(judge.judge for judge in calibration.judges)
    yield ""
    yield (
        f"{calibration.num_examples} labelled examples of `{calibration.dataset}` (SHA-256 "
        f"{calibration.dataset_digest[:12]}), {calibration.created:%Y-%m-%d %H:%M} UTC. "
        "Brackets are 95% intervals. Kappa, accuracy and error rates are over decided examples; "
        "UNSURE and abstentions are undecided, and counted separately. Everything is in "
        f"`{RECORD}`, every judgement in `{LOG}`."
    )
    yield ""
    if calibration.num_repeated:
        yield (
            f"Left out: {calibration.num_repeated} lines with the question, reference and answer "
            "of an earlier line."
        )
        yield ""
    if calibration.verify:
        checks = ", ".join(f"`{one}`" for one in calibration.verify)
        yield (
            f"**Not measured**: the chain's checks ({checks}) decide some answers before a judge "
            "is asked. Each judge was asked about all examples, without them."
        )
        yield ""
    yield from table(SUMMARY, summary_rows(calibration))
    for title, name in pictures.items():
        yield from (f"## {title}", "", f"![{title}](figures/{name})", "")
    for judge in calibration.judges:
        yield from _judge_lines(judge)
    yield from _cost_lines(calibration)


def _judge_lines(judge: JudgeCalibration) -> Iterator[str]:
    yield f"## {judge.judge}"
    yield ""
    yield f"Model {judge.model or 'none'}, prompt {judge.template or 'none'}."
    yield ""
    agreements = {"all examples": judge.overall} | judge.domains
    yield from table(
        ("domain", "examples", *SUMMARY[1:]),
        [[name, str(one.num_examples), *_agreement_cells(one)] for name, one in agreements.items()],
    )
    yield from table(("", ""), _other_rows(judge))
    if judge.probes:
        yield from table(
            ("attack", "what it is", "flipped to CORRECT", "of", "UNSURE", "abstained"),
            [
                [
                    probe.name,
                    probe.description,
                    percent(probe.flips),
                    str(probe.flips.n if probe.flips else 0),
                    str(probe.num_unsure),
                    str(probe.num_abstained),
                ]
                for probe in judge.probes
            ],
        )
    if judge.failures:
        yield from table(
            ("abstentions", "why"), [[str(n), why] for why, n in judge.failures.items()]
        )


def _cost_lines(calibration: Calibration) -> Iterator[str]:
    yield "## Cost"
    yield ""
    yield "All requests, including failed ones and those of earlier starts."
    yield ""
    rows = [
        [one.judge, str(one.cost.num_requests), str(one.cost.tokens), f"{one.cost.money:.6f}"]
        for one in calibration.judges
    ]
    yield from table(("judge", "requests", "tokens", "money"), rows)


def _agreement_cells(agreement: Agreement) -> list[str]:
    return [
        number(agreement.kappa),
        percent(agreement.accuracy),
        percent(agreement.false_positive_rate),
        percent(agreement.false_negative_rate),
        percent(agreement.coverage),
    ]


def _other_rows(judge: JudgeCalibration) -> list[list[str]]:
    rows = [
        ["UNSURE", percent(judge.overall.unsure)],
        ["abstained", percent(judge.overall.abstained)],
    ]
    if judge.stability is not None:
        one = judge.stability
        rows += [
            [f"same outcome in {one.num_repeats} repeats", percent(one.same_outcome)],
            ["both labels, of those decided each time", percent(one.flips)],
            ["kappa between the first two repeats", number(one.kappa)],
        ]
    if judge.against_primary is not None:
        other = judge.against_primary
        rows += [
            [f"same verdict as {other.primary}", percent(other.agreement)],
            [f"kappa with {other.primary}", number(other.kappa)],
            ["says CORRECT", _mcnemar(other.says_correct, judge.judge, other.primary)],
            ["is right", _mcnemar(other.is_right, judge.judge, other.primary)],
        ]
    rows.append(["length bias (correlation)", number(judge.length_bias)])
    if judge.position_bias is not None:
        position = judge.position_bias
        rows.append(["pairs whose winner turns with their order", percent(position.flips)])
        if position.first_of_flips is not None:
            rows.append(["of these, the first one wins", percent(position.first_of_flips)])
    preference = judge.self_preference
    if preference is not None:
        rows += [
            [f"false positives on {preference.family}'s answers", percent(preference.own)],
            ["false positives on others' answers", percent(preference.others)],
            ["self-preference (difference)", percent(preference.difference)],
        ]
    return rows


def _mcnemar(test: McNemar, this: str, primary: str) -> str:
    return (
        f"only {this}: {test.only_this}, only {primary}: {test.only_primary}, "
        f"McNemar's exact p = {test.p:.3g}"
    )
