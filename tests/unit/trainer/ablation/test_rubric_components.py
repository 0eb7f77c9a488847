"""The components of shipped rubrics are those of the reward service's own files."""

from pathlib import Path

import yaml

import assay_reward
from assay_trainer.ablation.rubric_components import RUBRIC_COMPONENTS


def test_every_shipped_rubric_is_known_with_its_components() -> None:
    shipped = {}
    for path in (Path(assay_reward.__file__).parent / "rubrics").glob("*.yaml"):
        rubric = yaml.safe_load(path.read_text())
        names = [one.get("name", one["verifier"]) for one in rubric["components"]]
        shipped[rubric["name"]] = frozenset(names)
    assert shipped == RUBRIC_COMPONENTS
