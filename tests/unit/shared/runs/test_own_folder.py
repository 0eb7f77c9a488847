"""A command writes into a new folder, an empty one, or its own."""

from pathlib import Path

import pytest

from assay_shared.errors import InvalidInput
from assay_shared.runs.own_folder import check_own_folder


def test_a_folder_of_other_files_is_refused_and_an_own_one_is_not(tmp_path: Path) -> None:
    words = ("inputs.json", "is not a check", "name a new folder")
    check_own_folder(tmp_path / "new", *words)
    check_own_folder(tmp_path, *words)
    (tmp_path / ".lock").write_text("")
    check_own_folder(tmp_path, *words)
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(InvalidInput, match=r"has notes\.txt, and is not a check"):
        check_own_folder(tmp_path, *words)
    with pytest.raises(InvalidInput, match="is a file"):
        check_own_folder(tmp_path / "notes.txt", *words)
    (tmp_path / "inputs.json").write_text("{}")
    check_own_folder(tmp_path, *words)
