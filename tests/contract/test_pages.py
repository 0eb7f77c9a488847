"""The pages of the run browser over HTTP, without a browser."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator
from html.parser import HTMLParser
from pathlib import Path

import aiohttp
import pytest

from assay_shared.runs.run_folder import RunFolder, RunStatus
from assay_shared.settings.run_file import load_config
from assay_trainer.config import RunConfig
from assay_trainer.rollouts.rollout_log import mark_superseded
from assay_trainer.service.app import create_app
from assay_trainer.service.record import create_run
from assay_trainer.settings import TrainerSettings
from tests.conftest import Serve
from tests.support.browser.stored_runs import DEMO, fill, keep, make_group, make_run
from tests.unit.trainer.evaluation.test_report import make_step

HOSTILE = (
    "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\u202eevil\x00\x1b[0m"
    "\u200b\u3164\ufe0f\U000e0041"
)


class Elements(HTMLParser):
    """The elements of a page, and the texts between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def links(self, style: str = "") -> Iterator[str]:
        for tag, attributes in self.found:
            if tag == "a" and style in (attributes.get("class") or ""):
                yield attributes.get("href") or ""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
async def session(serve: Serve, runs: Path) -> AsyncIterator[aiohttp.ClientSession]:
    url = serve(create_app(TrainerSettings(runs=runs)))
    async with aiohttp.ClientSession(url, timeout=aiohttp.ClientTimeout(30)) as opened:
        yield opened


async def page(session: aiohttp.ClientSession, path: str, status: int = 200) -> Elements:
    async with session.get(path) as response:
        assert response.status == status, await response.text()
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "form-action 'self'" in policy
        html = await response.text()
    found = Elements(html)
    assert [tag for tag, _ in found.found].count("script") == (1 if "<html" in html else 0)
    handlers = [name for _, attrs in found.found for name in attrs if name.startswith("on")]
    assert handlers == [], "no handler in an attribute"
    assert not [attrs for _, attrs in found.found if "style" in attrs], "the policy forbids them"
    assert "\u202e" not in html
    assert not re.search("[\x1b\u200b\u3164\ufe0f\U000e0041]", html)
    return found


async def read_all(session: aiohttp.ClientSession, name: str, num_samples: int) -> None:
    """Wait until the service has read all samples: a page shows those it has read so far."""
    for _ in range(200):
        async with session.get(f"/runs/{name}/live") as response:
            if f">{num_samples}<" in await response.text():
                return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{num_samples} samples are not read")


def places(found: Elements) -> set[str]:
    """Return the links of a list of runs, without those of its columns."""
    return {link for link in found.links() if not link.startswith("/?")}


async def test_all_runs_are_listed_and_found_by_name_state_and_setting(
    session: aiohttp.ClientSession, runs: Path
) -> None:
    assert "0 runs yet" in (await page(session, "/")).text
    for name in ("a", "b", "c"):
        run = make_run(runs / name)
        run.write_status(RunStatus(state="finished", stage="report"))
    (runs / "c" / "status.json").write_text("{broken")
    gain = {"value": 0.25, "low": 0.125, "high": 0.375}
    RunFolder(runs / "a").record("run_finished", report="r", gain=gain)  # type: ignore[arg-type]
    found = await page(session, "/")
    assert places(found) == {"#main", "/runs/a", "/runs/b", "/runs/c"}
    assert "+25.0 points (+12.5 to +37.5)" in found.text
    assert "unreadable" in found.text
    assert "1 runs match" in (await page(session, "/?q=unreadable")).text
    assert "3 runs match" in (await page(session, "/?q=grpo.steps%3D60+seed")).text
    assert "0 runs match" in (await page(session, "/?q=%3Cscript%3E")).text


async def test_a_name_that_the_api_refuses_is_listed_without_a_link(
    session: aiohttp.ClientSession, runs: Path
) -> None:
    make_run(runs / "a").path.rename(runs / "a b")
    found = await page(session, "/")
    assert places(found) == {"#main"}
    assert "'a b' is not a valid run name" in found.text


async def test_a_run_shows_its_funnel_curves_and_times_while_it_grows(
    session: aiohttp.ClientSession, runs: Path
) -> None:
    run = make_run(runs / "a")
    fill(run, 80)
    run.record("step", **make_step(1, num_played=10, num_generated=80).model_dump(mode="json"))
    await read_all(session, "a", 80)
    first = await page(session, "/runs/a")
    assert "asked" in first.text
    assert "waits for rollouts" in first.text
    assert [
        attrs["aria-label"]
        for tag, attrs in first.found
        if tag == "svg" and "mean reward" in (attrs.get("aria-label") or "")
    ] == ["mean reward: 0.5 in step 1, 0.5 in step 1"]
    assert "/runs/a/samples?reason=no_signal" in first.links()
    async with session.get("/runs/a/live") as response:
        stamp = response.headers["etag"]
        assert "<html" not in await response.text()
    async with session.get("/runs/a/live", headers={"if-none-match": stamp}) as response:
        assert response.status == 304
    run.record("step", **make_step(2, reward=0.75).model_dump(mode="json"))
    keep(run, 2, make_group(2, 99, "accepted"))
    await read_all(session, "a", 81)
    async with session.get("/runs/a/live", headers={"if-none-match": stamp}) as response:
        assert response.status == 200
        text = await response.text()
    assert "0.5 in step 1, 0.75 in step 2" in text


async def test_each_cell_opens_its_sample_and_filters_stay_in_the_links(
    session: aiohttp.ClientSession, runs: Path
) -> None:
    run = make_run(runs / "a")
    fill(run, 400)
    keep(run, 9, make_group(9, 900, "failed:sandbox", "accepted"))
    await read_all(session, "a", 402)
    found = await page(session, "/runs/a/samples?outcome=failed")
    cells = [link for link in found.links("cell") if "place=" in link]
    assert len(cells) == 8 + 2, "the groups of two samples without a score"
    assert all(link.endswith("&outcome=failed") for link in cells)
    failed = next(link for link in cells if "%2F900%2F" in link and "place=0" in link)
    sample = await page(session, failed)
    assert "sandbox failed in judge after 3 attempts; a retry may help" in sample.text
    previous = [a["href"] for tag, a in sample.found if tag == "a" and a.get("rel") == "prev"]
    assert len(previous) == 1
    assert "place=3" in str(previous[0])
    right = await page(session, failed.replace("place=0", "place=1"))
    for shown in ("tests", "1 of 4 cases passed", "Write task 900.", "version", "code.dense@1"):
        assert shown in right.text
    assert "no readable tokenizer.json" in right.text


async def test_discarded_groups_say_why(session: aiohttp.ClientSession, runs: Path) -> None:
    run = make_run(runs / "a")
    keep(run, 1, make_group(1, 1, "accepted", "accepted"), "no_signal")
    keep(run, 1, make_group(1, 2, "accepted", "wrong_answer"))
    found = await page(session, "/runs/a/samples?kept=discarded")
    assert "2 samples match" in found.text
    assert "not trained on: all rewards are equal" in found.text
    cell = next(link for link in found.links("cell") if "place=" in link)
    assert "Not trained on: all rewards are equal." in (await page(session, cell)).text


async def test_what_a_model_wrote_is_never_markup(
    session: aiohttp.ClientSession, runs: Path
) -> None:
    run = make_run(runs / "a")
    group = make_group(1, 1, "accepted", prompt=HOSTILE, gold=HOSTILE)
    rollout = group.group.rollouts[0].model_copy(update={"text": HOSTILE + "x" * 300_000})
    task = group.group.task.model_copy(update={"id": HOSTILE, "tags": {HOSTILE: HOSTILE}})
    reward = group.rewards[0]
    part = reward.components[0].model_copy(  # type: ignore[union-attr]
        update={"name": HOSTILE, "detail": HOSTILE}
    )
    changed = {
        "group": group.group.model_copy(update={"rollouts": (rollout,), "task": task}),
        "rewards": (reward.model_copy(update={"components": (part,)}),),
        "worker": HOSTILE,
        "scorer": HOSTILE,
    }
    keep(run, 1, group.model_copy(update=changed))
    run.record("run_failed", message=HOSTILE)
    run.write_status(RunStatus(state="failed", stage=HOSTILE, message=HOSTILE))
    await page(session, "/")
    await page(session, "/runs/a")
    found = await page(session, "/runs/a/samples")
    cell = next(link for link in found.links("cell") if "place=" in link)
    sample = await page(session, cell)
    assert sample.text.count("<script>alert(1)</script>") >= 5
    assert "more characters" in sample.text
    assert len(sample.text) < 200_000
    query = "text=%3Cscript%3E%22%27&task=%3C%2Finput%3E"
    assert "0 samples match" in (await page(session, f"/runs/a/samples?{query}")).text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/runs/none", 404),
        ("/runs/none/samples", 404),
        ("/runs/..%2F..", 404),
        ("/runs/a/sample?group=none&place=0", 404),
        ("/runs/a/sample?group=run%2F0%2Ffamily-0%2F0%2Fv1%2Fcode.dense&place=9", 404),
        ("/runs/a/sample?group=x&place=y", 422),
        ("/runs/a/sample?group=x&place=-2", 422),
        ("/runs/a/sample?group=x&place=" + "9" * 30, 422),
        ("/?q=" + "x" * 2000, 422),
    ],
)
async def test_what_is_not_there_is_said(
    session: aiohttp.ClientSession, runs: Path, path: str, status: int
) -> None:
    fill(make_run(runs / "a"), 80)
    await read_all(session, "a", 80)
    async with session.get(path) as response:
        assert response.status == status


async def test_a_replaced_group_and_the_one_with_its_key_have_their_own_pages(
    session: aiohttp.ClientSession, runs: Path
) -> None:
    run = make_run(runs / "a")
    keep(run, 2, make_group(2, 1, "accepted", seed=1))
    mark_superseded(run.rollouts, 1)
    keep(run, 2, make_group(2, 1, "wrong_answer", seed=2))
    await read_all(session, "a", 1)
    for kept, outcome in (("superseded", "accepted"), ("trained", "wrong_answer")):
        shown = await page(session, f"/runs/a/samples?kept={kept}")
        (link,) = [one for one in shown.links("cell") if one]
        sample = await page(session, link)
        assert re.search(rf"outcome\s*{outcome}", sample.text), kept


async def test_an_error_is_a_page_for_a_person(session: aiohttp.ClientSession, runs: Path) -> None:
    found = await page(session, "/runs/none%3Cscript%3E/samples", 422)
    assert "is not a valid run name" in found.text
    assert set(found.links()) == {"#main", "/"}
    run = make_run(runs / "a")
    content = make_group(1, 0, "accepted").model_dump_json().replace('"worker":"w1",', "")
    run.rollouts.write_text('{"step":1,"superseded":false,' + content[1:] + "\n")
    for path in ("/runs/a", "/runs/a/samples"):
        shown = await page(session, path)
        assert "damaged line rollouts.jsonl:1 (byte 0): worker: Field required" in shown.text


async def test_files_that_are_not_regular_are_named_on_the_pages(
    session: aiohttp.ClientSession, runs: Path
) -> None:
    run = make_run(runs / "a")
    os.mkfifo(run.rollouts)
    (run.path / "discarded.jsonl").symlink_to("/dev/zero")
    run.events.unlink(missing_ok=True)
    run.events.mkdir()
    shown = await page(session, "/runs/a")
    for name in ("rollouts.jsonl", "discarded.jsonl", "events.jsonl"):
        assert f"{name} cannot be read: it is not a regular file" in shown.text
    assert "0 samples" in (await page(session, "/runs/a/samples")).text
    assert "1 runs" in (await page(session, "/")).text


async def test_a_filter_that_cannot_be_used_is_explained_on_the_page(
    session: aiohttp.ClientSession, runs: Path
) -> None:
    make_run(runs / "a")
    found = await page(session, "/runs/a/samples?step=first", 422)
    assert re.search(r"'first' cannot be used", found.text)
    assert "0 samples" in found.text


@pytest.mark.parametrize(
    ("query", "field", "right"),
    [
        ("step=9-3", "step", "a range from the smaller one: 7, 3-9"),
        ("step=-1", "step", "7, 3-9"),
        ("outcome=nope", "outcome", "accepted, wrong_answer"),
        ("outcome=failed:", "outcome", "failed: with policy, caller"),
        ("outcome=accepted:judge", "outcome", "accepted, wrong_answer"),
        ("reason=foo", "reason", "too_old, unknown_version"),
        ("kept=foo", "kept", "trained, discarded, superseded"),
        ("text=%00", "text", "leave it out"),
        ("task=a%00b", "task", "leave it out"),
        ("after=zzz", "after", "begin without it"),
        ("after=1.2.3", "after", "begin without it"),
        ("unknown=1", "unknown", "there are after, component, kept"),
        ("page=-1", "page", "there are after, component, kept"),
        ("text=" + "x" * 7000, "text", "at most 1000"),
        ("text=" + "x" * 700, "text", "at most 400"),
    ],
)
async def test_a_query_that_can_match_nothing_is_refused_with_what_is_right(
    session: aiohttp.ClientSession, runs: Path, query: str, field: str, right: str
) -> None:
    fill(make_run(runs / "a"), 80)
    shown = (await page(session, f"/runs/a/samples?{query}", 422)).text
    assert f"{field}: " in shown
    assert right in shown


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/compare?run=a&run=a&over=foo", "over: Input should be"),
        ("/compare?run=a&rum=a", "rum: is not a parameter of this page (there are over, run)"),
        ("/runs/a/sample?place=0", "group: Field required"),
        ("/runs/a/sample?group=x&place=y", "place: Input should be a valid integer"),
        ("/runs/a/evaluations/task", "task: Field required"),
        ("/runs/a?x=1", "x: is not a parameter of this page (it takes none)"),
        ("/?page=-1", "page: Input should be greater than or equal to 0"),
        ("/?q=" + "x" * 2000, "q: String should have at most"),
    ],
)
async def test_each_refusal_is_a_page(
    session: aiohttp.ClientSession, runs: Path, path: str, words: str
) -> None:
    make_run(runs / "a")
    found = await page(session, path, 422)
    assert "This page cannot be shown" in found.text
    assert words.lower() in found.text.replace("query.", "").lower()
    assert "/" in set(found.links())


def times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


async def test_pages_need_the_token_and_leave_the_run_as_it_is(serve: Serve, runs: Path) -> None:
    run = make_run(runs / "a")
    fill(run, 80)
    before = times(run.path)
    url = serve(create_app(TrainerSettings.model_validate({"runs": runs, "token": "the-token"})))
    async with aiohttp.ClientSession(url, timeout=aiohttp.ClientTimeout(30)) as session:
        for path in ("/", "/runs/a", "/runs/a/live", "/runs/a/samples"):
            async with session.get(path) as response:
                assert response.status == 401, path
            headers = {"authorization": "Bearer the-token"}
            async with session.get(path, headers=headers) as response:
                assert response.status == 200, path
    assert times(run.path) == before
    assert set(times(runs)) == {"a", ".browser"}


async def test_runs_are_searched_and_sorted_by_owner_and_cost(serve: Serve, tmp_path: Path) -> None:
    config = load_config(RunConfig, DEMO)
    for name, owner, tokens in (("a", "Grace7", 20), ("b", "<b>bob", 300), ("c", "", None)):
        run = create_run(tmp_path / name, config, started_by=owner)
        if tokens is not None:
            changes = {"num_tokens": tokens, "judge_money": 0.0, "judge_tokens": 0}
            run.record("step", **make_step(1, **changes).model_dump(mode="json"))
    url = serve(create_app(TrainerSettings(runs=tmp_path)))
    async with aiohttp.ClientSession(url) as session:

        async def names(query: str) -> list[str]:
            async with session.get(f"/?{query}") as response:
                assert response.status == 200
                html = await response.text()
                assert "<b>bob" not in html
                return re.findall(r'<a href="/runs/([a-c])"', html)

        assert await names("sort=cost") == ["b", "a", "c"]
        owned = await names("sort=owner")
        assert owned.index("b") < owned.index("a")
        assert await names("q=grace7") == ["a"]
        assert await names("q=300+tokens") == ["b"]
        for sort in ("name", "state", "stage", "gain", "model", "data", "changed"):
            assert sorted(await names(f"sort={sort}")) == ["a", "b", "c"]
        async with session.get("/?sort=nothing") as response:
            assert response.status == 422
            assert "sort" in await response.text()
