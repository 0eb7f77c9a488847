"""Pages of runs: hostile texts stay texts, and every part is drawn."""

from html.parser import HTMLParser

from assay_reward.workflows.execution.picture import runs_page, time_line
from assay_shared.errors import ExecutorFault
from tests.support.workflows import DIRECT, FakeExecutor, play

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


async def test_hostile_texts_stay_texts() -> None:
    broken = FakeExecutor(
        lambda _: ExecutorFault(HOSTILE), fallback=FakeExecutor(lambda _: HOSTILE)
    )
    runs = [
        await play(DIRECT, FakeExecutor(lambda _: HOSTILE), problem=HOSTILE),
        await play(DIRECT, broken, problem=HOSTILE),
    ]
    page = runs_page([(HOSTILE, run, HOSTILE) for run in runs])
    tags = Tags()
    tags.feed(page)
    assert "script" not in tags.names
    assert "img" not in tags.names
    assert tags.handlers == []
    assert "default-src 'none'" in page
    assert "reported, never rewarded" in page


async def test_each_part_has_a_bar() -> None:
    run = await play(DIRECT, FakeExecutor(delay_s=0.01))
    drawn = time_line(run.trace)
    assert drawn.count("<rect") == 3
    assert "operator AnswerGenerate" in drawn
