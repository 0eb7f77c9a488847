"""`assay sandbox run` names what is wrong with the program's file."""

from pathlib import Path

import pytest

from assay_shared.cli import main


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"print(1)\n\xff", "is not UTF-8: byte 9"), (None, "does not exist")],
)
def test_a_file_that_is_no_program_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, told: str
) -> None:
    file = tmp_path / "program.py"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SystemExit, match="2"):
        main(["sandbox", "run", str(file)])
    assert told in " ".join(capsys.readouterr().err.split())
