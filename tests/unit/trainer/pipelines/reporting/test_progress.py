"""Progress of a pipeline where no terminal shows it."""

from io import StringIO

from rich.console import Console

from assay_trainer.pipelines.reporting.progress import shown_progress


def test_a_file_gets_a_line_a_stage_and_not_one_a_step() -> None:
    file = StringIO()
    with shown_progress(Console(file=file)) as show:
        for step in range(1000):
            show("sft", f"step {step} [/red]")
        show("grpo", "begins")
    lines = file.getvalue().splitlines()
    assert [line.partition(" ")[2] for line in lines] == ["sft: step 0 [/red]", "grpo: begins"]


def test_a_terminal_shows_a_line_as_it_is() -> None:
    file = StringIO()
    with shown_progress(Console(file=file, force_terminal=True, width=80)) as show:
        show("sft", "loss [/red] 1.0")
