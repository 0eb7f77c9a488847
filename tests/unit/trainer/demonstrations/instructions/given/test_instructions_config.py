"""The command's file, with the example files."""

import re
from pathlib import Path

import pytest

from assay_shared.errors import ConfigError
from assay_shared.settings.run_file import load_config
from assay_trainer.demonstrations.instructions.given.constitution import read_constitution
from assay_trainer.demonstrations.instructions.given.instructions_config import (
    FiltersConfig,
    InstructionsConfig,
)
from assay_trainer.demonstrations.instructions.given.seeds import read_seeds
from assay_trainer.demonstrations.instructions.screening.filters import Filters

CONFIGS = Path(__file__).parents[6] / "configs"


@pytest.mark.parametrize(
    "name", ["instructions/instructions.yaml", "pipelines/runs/constitution.yaml"]
)
def test_the_examples_and_the_files_that_they_name_can_be_used(name: str) -> None:
    file = CONFIGS / name
    config = load_config(InstructionsConfig, file).from_folder(file.parent)
    assert config.seeds is not None
    assert config.revision is not None
    filters = Filters(FiltersConfig())
    found = read_seeds(
        config.seeds,
        lambda text, answer: filters.of_instruction(text) or filters.of_answer(str(answer), False),
    )
    assert len(found.seeds) == 40
    assert found.left_out == ()
    assert len(read_constitution(config.revision.constitution).principles) == 5


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("policy: a", "need seeds"),
        ("seeds: s.jsonl\npolicy: a\nserver: {url: b}", "either policy or server"),
        ("seeds: s.jsonl\nprompt_format: raw\nanswers: {system: b}", r"no answers\.system"),
        ("seeds: s.jsonl\nfilters: {min_answer_characters: 9000}", "min_answer_characters"),
        ("seeds: s.jsonl\ninvention: {wantd: 3}", "did you mean wanted"),
    ],
)
def test_a_file_that_cannot_be_right_is_refused(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_config(InstructionsConfig, file)
    assert re.search(told, f"{error.value} {error.value.hint}")


def test_two_principles_of_one_name_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    rule = "  - {name: a, critique_request: b, revision_request: c}\n"
    file.write_text("principles:\n" + 2 * rule)
    with pytest.raises(ConfigError, match="two principles are called 'a'"):
        read_constitution(file)
