"""The given answers, and files of one's own."""

from pathlib import Path

import pytest
import yaml

from assay_shared.errors import ConfigError
from assay_shared.tryout.given import FOLDER, read_groups
from assay_shared.tryout.usual_practice import PRACTICES
from assay_shared.verdicts.compared import Nature


def test_there_are_200_in_groups_of_8() -> None:
    groups = read_groups()
    assert [len(group.answers) for group in groups] == [8] * 25
    assert len({group.task.id for group in groups}) == 25
    assert {group.task.rubric for group in groups} == set(PRACTICES)
    natures = [answer.nature for group in groups for answer in group.answers]
    assert min(natures.count(one) for one in (Nature.RIGHT, Nature.WRONG, Nature.CHEAT)) > 30
    assert Nature.UNKNOWN not in natures
    assert [group.killed_answer for group in groups if group.killed_answer] == [8]


def one_group(**changes: object) -> dict[str, object]:
    answers = [{"nature": "right", "note": "n", "text": f"{at}"} for at in range(2)]
    task = {"id": "t", "prompt": "p", "rubric": "math", "reference": "1"}
    return {"name": "g", "task": task, "answers": answers} | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"killed_answer": 3}, "killed_answer is over 2"),
        ({"answers": [{"nature": "right", "note": "n", "text": "1"}] * 2}, "the same text"),
        ({"answers": [{"nature": "good", "note": "n", "text": "1"}] * 2}, "nature"),
        ({"task": {"id": "t", "rubric": "qa"}}, "have `judge` for the rubric qa"),
        ({"nmae": "g"}, "unknown key"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump({"groups": [one_group(**changes)]}))
    with pytest.raises(ConfigError, match=message):
        read_groups(file)


def test_a_file_of_ones_own_is_read_and_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no file of answers"):
        read_groups(tmp_path)
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"groups": [one_group()]}))
    assert read_groups(tmp_path)[0].name == "g"
    assert FOLDER.is_dir()
