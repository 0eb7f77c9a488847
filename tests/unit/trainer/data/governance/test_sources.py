import hashlib
from pathlib import Path

import pytest

from assay_shared.errors import ConfigError, DatasetError, RoleError
from assay_shared.types import Role, Task
from assay_trainer.config import JsonlSource
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.data.governance.sources import refuse_deprecated
from assay_trainer.table_source import HubSource, RowMap
from tests.support.trainer_imports import write_rows


def test_a_run_refuses_a_deprecated_name_of_a_hub_with_the_reason() -> None:
    source = HubSource(
        kind="hub",
        name="hendrycks/competition_math",
        split="train",
        map=RowMap(prompt="{problem}", rubric="math"),
    )
    with pytest.raises(DatasetError, match="is deprecated: it was taken down") as caught:
        open_dataset(source, DatasetPurpose.TRAIN, None)
    assert caught.value.hint


def test_a_users_register_refuses_a_file_under_any_name(tmp_path: Path) -> None:
    row = Task(id="a/1", dataset="a", role=Role.TRAIN, prompt="b c", rubric="math")
    path = write_rows(tmp_path / "old.jsonl", [row.model_dump(mode="json")])
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    source = JsonlSource(kind="jsonl", path=path)
    assert open_dataset(source, DatasetPurpose.TRAIN, tmp_path).tasks
    (tmp_path / "sources.yaml").write_text(
        f"deprecated:\n  - sha256: {digest}\n    reason: made with a template\n"
    )
    for purpose in DatasetPurpose:
        with pytest.raises(DatasetError, match="made with a template"):
            open_dataset(source, purpose, tmp_path)


def test_an_entry_without_a_reason_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "sources.yaml").write_text("deprecated:\n  - name: a/b\n")
    with pytest.raises((ConfigError, RoleError), match="reason"):
        refuse_deprecated(["c/d"], tmp_path)
