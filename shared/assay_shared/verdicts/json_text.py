"""Compared answers as JSON, for programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from assay_shared.verdicts.compared import ComparedGroup, totals_of
from assay_shared.verdicts.summary import findings


def verdict_json(groups: Sequence[ComparedGroup]) -> str:
    """Return all groups with rewards, advantages and harms, and the findings, as a JSON object."""
    found = [
        {
            **asdict(group),
            "answers": [
                {
                    **asdict(one),
                    "advantage": own,
                    "usual_advantage": usual,
                    "harm": one.harm,
                    "own_harm": one.own_harm,
                }
                for one, own, usual in group.rows
            ],
        }
        for group in groups
    ]
    lines = [asdict(one) for one in findings(totals_of(groups))]
    return json.dumps({"groups": found, "findings": lines}, indent=1, ensure_ascii=False)
