"""`assay sandbox run`: the language of a file, and what is wrong with the file."""

import json
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


@pytest.mark.parametrize(
    ("name", "options", "printed"),
    [
        ("program.sh", (), "bash\n"),
        ("program.PY", (), "python\n"),
        ("program", (), "python\n"),
        ("program.sh", ("--language", "python"), "python\n"),
    ],
)
def test_the_end_of_the_name_tells_the_language(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    options: tuple[str, ...],
    printed: str,
) -> None:
    file = tmp_path / name
    file.write_text('true = """:"\necho bash\nexit\n"""\nprint("python")\n')
    with pytest.raises(SystemExit, match="0"):
        main(["sandbox", "run", str(file), *options])
    assert json.loads(capsys.readouterr().out)["stdout"] == printed
