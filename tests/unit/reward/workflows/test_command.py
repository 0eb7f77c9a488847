"""`assay workflow check` and `show`."""

from pathlib import Path

import pytest

from assay_shared.cli import main

SOURCE = 'if problem == "a"\n  x = problem\nend\nreturn x\n'


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["workflow", *arguments])
    return int(caught.value.code or 0)


def test_check_tells_problems_and_what_a_repair_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "workflow.txt"
    file.write_text(SOURCE)
    assert run("check", str(file)) == 2
    assert "error: line 4, column 8: x may be unset here" in capsys.readouterr().err
    assert run("check", str(file), "--repair") == 0
    shown = capsys.readouterr().out
    assert 'line 1, column 1: set at first: x = ""\n' in shown
    assert '+x = ""\n' in shown
    assert shown.endswith(
        "at most 0 operator calls, 0 calls of the executor model, 0 programs, depth 0, 4 steps\n"
    )
    assert file.read_text() == SOURCE


def test_show_prints_both_forms_the_tree_and_the_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "workflow.py"
    file.write_text("async def workflow(problem):\n    x = problem\n    return x\n")
    assert run("show", str(file)) == 0
    shown = capsys.readouterr().out
    assert "# text form\nx = problem\nreturn x\n" in shown
    assert "# python form\nasync def workflow(problem):\n    x = problem\n" in shown
    assert "Return (3:5)\n    └── Variable 'x' (3:12)" in shown
    assert "# repairs" not in shown


def test_a_form_can_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "workflow.txt"
    file.write_text("return problem")
    assert run("check", str(file), "--python") == 2
    assert "write async def workflow(problem):" in capsys.readouterr().err
    assert run("check", str(file), "--python", "--text") == 2
    assert "give one of them" in capsys.readouterr().err
    file.write_bytes(b"\xff\xfe")
    assert run("check", str(file)) == 2
    assert "save it as UTF-8" in capsys.readouterr().err
    file.write_text("x" * 3_000_000)
    assert run("check", str(file)) == 2
    assert "more than 16384" in capsys.readouterr().err


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "flow.txt"
    file.write_bytes(b"\xef\xbb\xbfa = AnswerGenerate(input=problem)\nreturn a.answer\n")
    assert run("check", str(file)) == 0


@pytest.mark.parametrize("added", ['["u", "v"]', "[]", "m"])
def test_a_list_gets_one_item_at_a_time(
    added: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "flow.txt"
    file.write_text(f'm = ["a"]\nl = ["b"]\nl += {added}\nreturn problem\n')
    assert run("check", str(file)) == 2
    assert "the one item that is added is a list" in capsys.readouterr().err
