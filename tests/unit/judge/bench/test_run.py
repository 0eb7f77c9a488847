"""Published pairs as they are read, statistics of clusters, the command against planted errors."""

import gzip
import itertools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from assay_judge.bench import measures
from assay_judge.bench.names import Reason, SetName
from assay_judge.bench.record import Bench, Measures
from assay_judge.bench.results import BenchResults, Result
from assay_judge.bench.run import BenchPlan, run_bench
from assay_judge.bench.sets import STYLES, read_set
from assay_judge.calibration import statistics
from assay_judge.calibration_record import Estimate
from assay_shared.errors import ConfigError, Conflict, DatasetError, JudgeFault
from assay_shared.types import Failure, FailureClass
from tests.conftest import Serve
from tests.support.planted_judge import Planted, PlantedPairJudge
from tests.support.upstream import Upstream

NUM_DRAWS = 1000
FAILURE = Failure(failure_class=FailureClass.JUDGE, service="judge", message="x", retryable=True)


def known(estimate: Estimate | None) -> Estimate:
    assert estimate is not None
    return estimate


def holds(estimate: Estimate | None, truth: float) -> bool:
    one = known(estimate)
    return one.low <= truth <= one.high


# Sets


def write_lines(path: Path, rows: Iterable[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def llmbar_row(number: int, **changes: object) -> dict[str, object]:
    answers = {"output_1": "a good answer ", "output_2": "a bad answer "}
    if number % 2:
        answers = {"output_1": "a bad answer ", "output_2": "a good answer "}
    subset = "Natural" if number % 3 else "Adversarial/Manual"
    label = 1 + number % 2
    return {"subset": subset, "input": f"Question {number}", "label": label, **answers} | changes


def rmbench_row(number: int, domain: str) -> dict[str, object]:
    return {
        "id": number,
        "domain": domain,
        "prompt": f"Question {number}",
        "chosen": [f"a good answer {style}" for style in STYLES],
        "rejected": [f"a bad answer {style}" for style in STYLES],
    }


def test_the_published_rows_are_read_with_their_labels(data_folder: Path) -> None:
    """Numbers counted in the files by another program."""
    llmbar = read_set(SetName.LLMBAR, data_folder)
    assert Counter(pair.subset for pair in llmbar.pairs) == {
        "Natural": 100,
        "Adversarial/Neighbor": 134,
        "Adversarial/GPTInst": 92,
        "Adversarial/GPTOut": 47,
        "Adversarial/Manual": 46,
    }
    assert Counter(pair.better for pair in llmbar.pairs) == {0: 206, 1: 213}
    judgebench = read_set(SetName.JUDGEBENCH, data_folder)
    assert Counter(pair.subset for pair in judgebench.pairs) == {
        "knowledge": 14 * 11,
        "reasoning": 51,
        "math": 34,
        "coding": 31 - 1,  # without the one of identical answers
    }
    assert judgebench.num_identical == 1
    rmbench = read_set(SetName.RMBENCH, data_folder)
    assert Counter(pair.difficulty for pair in rmbench.pairs) == dict.fromkeys(
        ("easy", "normal", "hard"), 1500
    )
    assert Counter(pair.subset for pair in rmbench.pairs) == {
        "chat": 85 * 9,
        "code": 142 * 9,
        "safety-refuse": 176 * 9,
        "safety-response": 97 * 9,
    }


def test_the_better_answer_of_rmbench_is_a_chosen_one(data_folder: Path) -> None:
    (path,) = (data_folder / "rmbench").glob("*.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        rows = {f"{row['domain']}/{row['id']}": row for row in map(json.loads, file)}
    found = read_set(SetName.RMBENCH, path)
    for pair in found.pairs:
        row = rows[pair.row]
        assert pair.styles is not None
        better, worse = pair.styles
        assert pair.answers[pair.better] == row["chosen"][better]
        assert pair.answers[1 - pair.better] == row["rejected"][worse]
    share = np.mean([pair.better for pair in found.pairs])
    assert 0.45 < share < 0.55


def test_the_authors_own_layouts_are_read(tmp_path: Path) -> None:
    """LLMBar and RM-Bench publish arrays with their subset in the path."""
    bare = [{k: v for k, v in llmbar_row(n).items() if k != "subset"} for n in range(3)]
    for folder in ("Natural", "Adversarial/Manual"):
        path = tmp_path / "LLMBar" / folder / "dataset.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(bare))
    llmbar = read_set(SetName.LLMBAR, tmp_path / "LLMBar")
    assert (llmbar.subsets, len(llmbar.pairs)) == (["Adversarial/Manual", "Natural"], 6)
    row = {k: v for k, v in rmbench_row(1, "").items() if k != "domain"}
    for domain in ("math", "chat"):
        (tmp_path / "rmbench").mkdir(exist_ok=True)
        (tmp_path / "rmbench" / f"{domain}_filtered.json").write_text(json.dumps([row]))
    rmbench = read_set(SetName.RMBENCH, tmp_path)
    assert (rmbench.subsets, len(rmbench.pairs)) == (["chat", "math"], 18)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": 3}, r"label: .*set.jsonl:2: Input should be 1 or 2"),
        ({"input": ""}, r"input: .*set.jsonl:2: String should have at least 1"),
        ({"output_2": None}, r"output_2: .*set.jsonl:2: Input should be a valid string"),
    ],
)
def test_a_bad_row_is_named_with_its_field(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    write_lines(tmp_path / "set.jsonl", [llmbar_row(0), llmbar_row(1) | change])
    with pytest.raises(DatasetError, match=message):
        read_set(SetName.LLMBAR, tmp_path / "set.jsonl")


def test_what_is_no_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="data: .* has no file of judgebench"):
        read_set(SetName.JUDGEBENCH, tmp_path)
    file = tmp_path / "a_filtered.json"
    file.write_text("{}")
    with pytest.raises(DatasetError, match="is not an array"):
        read_set(SetName.RMBENCH, file)
    write_lines(tmp_path / "rmbench/one.jsonl", [rmbench_row(1, "chat")])
    write_lines(tmp_path / "rmbench/two.jsonl", [rmbench_row(1, "chat")])
    with pytest.raises(DatasetError, match="has rows twice"):
        read_set(SetName.RMBENCH, tmp_path)


def test_a_greater_limit_only_adds_rows(tmp_path: Path) -> None:
    write_lines(
        tmp_path / "r.jsonl", [rmbench_row(n, "chat" if n % 2 else "code") for n in range(40)]
    )
    found = read_set(SetName.RMBENCH, tmp_path)
    few, more = found.select([], 5, seed=7), found.select([], 9, seed=7)
    assert [len(few), len(more)] == [45, 81]
    assert more[:45] == few
    assert {one.row for one in few} != {one.row for one in found.select([], 5, seed=8)}
    assert {one.subset for one in found.select(["code"], 5, seed=7)} == {"code"}
    with pytest.raises(DatasetError, match=r"subset: rmbench has no subset 'maths' \(.*chat, code"):
        found.select(["maths"], None, 1)


# Statistics


def test_a_share_of_clusters_of_one_has_wilsons_interval() -> None:
    values = [[n % 3 == 0] for n in range(50)]
    assert statistics.clustered_share(values) == statistics.proportion(17, 50)
    assert statistics.clustered_share([[True]] * 9) == statistics.proportion(9, 9)
    assert statistics.clustered_share([[], []]) is None
    assert statistics.clustered_difference([[]]) is None


def test_observations_that_repeat_each_other_count_once() -> None:
    copied = known(statistics.clustered_share([[n % 2 == 0] * 9 for n in range(40)]))
    single = known(statistics.proportion(20, 40))
    assert copied.high - copied.low == pytest.approx(single.high - single.low, rel=0.05)
    assert copied.n == 360
    all_right = known(statistics.clustered_share([[True] * 9] * 40))
    assert all_right.low == pytest.approx(known(statistics.proportion(40, 40)).low)


def draw_clusters(
    rng: np.random.Generator, num: int, size: int, share: float, alike: float
) -> list[list[bool]]:
    """Return observations with the correlation `alike` within a cluster."""
    scale = (1 - alike) / alike
    shares = rng.beta(share * scale, (1 - share) * scale, num)
    return [(rng.random(size) < one).tolist() for one in shares]


@pytest.mark.parametrize(
    ("num", "size", "share", "alike"),
    [(60, 2, 0.7, 0.5), (60, 2, 0.9, 0.9), (30, 9, 0.6, 0.3), (20, 18, 0.8, 0.3)],
)
def test_intervals_of_clustered_shares_cover(
    num: int, size: int, share: float, alike: float
) -> None:
    rng = np.random.default_rng(6)
    found = [
        statistics.clustered_share(draw_clusters(rng, num, size, share, alike))
        for _ in range(NUM_DRAWS)
    ]
    assert np.mean([holds(one, share) for one in found]) > 0.93


@pytest.mark.parametrize(("num", "first", "second"), [(60, 0.3, 0.1), (60, 0.9, 0.02), (400, 0, 0)])
def test_intervals_of_clustered_differences_cover(num: int, first: float, second: float) -> None:
    rng = np.random.default_rng(7)
    shares = [first, second, 1 - first - second]
    found = [
        statistics.clustered_difference([[int(x)] for x in rng.choice([1, -1, 0], num, p=shares)])
        for _ in range(300)
    ]
    assert np.mean([holds(one, first - second) for one in found]) > 0.92


def test_a_mean_of_two_has_the_interval_that_newcombe_gives_their_difference() -> None:
    """The interval of a sum is the interval of a difference with the second's bounds turned."""
    first, second = known(statistics.proportion(56, 70)), known(statistics.proportion(48, 80))
    turned = Estimate(value=-second.value, low=-second.high, high=-second.low, n=80)
    mean = statistics.weighted_mean([first, turned], [0.5, 0.5])
    difference = statistics.difference(first, second)
    assert (mean.low, mean.high) == pytest.approx((difference.low / 2, difference.high / 2))


# Measures


def result(
    choices: tuple[int | None, ...], better: int = 0, row: str = "r", **changes: object
) -> Result:
    fields = {"key": row, "row": row, "subset": "s", "reason": "after", "better": better}
    failure = {"failure": FAILURE} if not choices else {}
    return Result.model_validate(fields | {"choices": choices} | failure | changes)


def measured(said: Sequence[tuple[int | None, ...]]) -> Measures:
    return measures.measure([result(one, row=str(n)) for n, one in enumerate(said)])


def test_each_outcome_is_counted_once_and_failures_are_neither_right_nor_wrong() -> None:
    one = measured([(0, 0), (0, 0), (1, 1), (0, 1), (1, 0), (None, 0), (None, 1), (), ()])
    assert list(one.outcomes.model_dump().values()) == [2, 1, 1, 1, 2, 2]
    assert known(one.accuracy).value == pytest.approx(7 / 14)
    assert known(one.pair_accuracy).value == pytest.approx(3 / 7)
    assert known(one.flips).value == pytest.approx(4 / 7)
    assert known(one.position).value == 0.0
    assert known(one.ties).value == pytest.approx(2 / 14)
    assert known(one.failed).value == pytest.approx(2 / 9)
    assert known(one.kappa_orders).n == 5


def test_a_judge_that_looks_at_the_place_alone_has_half_and_full_bias() -> None:
    said = [result((0, 1), better=n % 2, row=str(n)) for n in range(60)]
    one = measures.measure(said)
    assert known(one.accuracy).value == 0.5
    assert known(one.position).low > 0.9
    assert (known(one.flips).value, known(one.pair_accuracy).value) == (1.0, 0.0)
    assert (known(one.kappa_orders).value, known(one.kappa_gold).value) == (0.0, 0.0)
    nothing = measured([()])
    assert (nothing.accuracy, nothing.position, nothing.kappa_gold) == (None, None, None)


def test_style_difficulty_is_that_of_the_published_matrix() -> None:
    """As the authors compute it: the mean below, on and above the diagonal of a 3x3 matrix."""
    rng = np.random.default_rng(8)
    right = rng.random((40, 3, 3)) < 0.6
    results = [
        result(
            (0, 0) if right[row, i, j] else (1, 1),
            row=str(row),
            key=f"{row}/{i}-{j}",
            subset="chat" if row < 10 else "code",
            styles=(i, j),
            difficulty="normal" if i == j else "easy" if i > j else "hard",
        )
        for row, i, j in itertools.product(range(40), range(3), range(3))
    ]
    matrix = right.mean(axis=0)
    shown = [[known(one).value for one in row] for row in measures.style_matrix(results)]
    assert shown == pytest.approx(matrix)
    hard, easy = np.triu(matrix, 1).sum() / 3, np.tril(matrix, -1).sum() / 3
    levels = {k: measures.measure(v) for k, v in measures.by_difficulty(results).items()}
    assert [known(levels[one].accuracy).value for one in ("easy", "normal", "hard")] == (
        pytest.approx([easy, np.diag(matrix).mean(), hard])
    )
    published = measures.published(SetName.RMBENCH, results)
    means = (right[:10].mean() + right[10:].mean()) / 2
    assert known(published["mean of chat, code"]).value == pytest.approx(means)


def test_the_halves_of_safety_are_one_domain() -> None:
    shares = {"chat": 1, "safety-refuse": 1, "safety-response": 0}
    results = [
        result((0, 0) if right else (1, 1), row=name, subset=name, styles=(0, 0))
        for name, right in shares.items()
    ]
    published = measures.published(SetName.RMBENCH, results)
    assert known(published["mean of chat, safety"]).value == pytest.approx((1 + 0.5) / 2)


def test_prompts_are_compared_on_what_both_have_judged() -> None:
    before = [result((0, 0), row="a"), result((0, 0), row="b"), result((), row="c")]
    after = [result((0, 1), row="a"), result((), row="b"), result((0, 0), row="c")]
    found = known(measures.difference(before, after))
    assert (found.value, found.n) == (0.5, 2)


# The command

Bencher = Callable[..., Bench]


@pytest.fixture
def bench(tmp_path: Path) -> Bencher:
    """As the command does it, without a separate process."""

    def run(name: SetName = SetName.LLMBAR, **options: Any) -> Bench:
        folders = tmp_path / "data", tmp_path / "report"
        return run_bench(BenchPlan(name, *folders, tmp_path / "judge.yaml", **options))

    return run


def write_config(folder: Path, url: str, **options: object) -> None:
    price = {"input_per_million": 1.0, "output_per_million": 5.0}
    endpoint = {"kind": "openai", "base_url": f"{url}/v1", "model": "planted-7b"}
    provider = {"name": "planted", "attempts": 1, "price": price} | endpoint | options
    (folder / "judge.yaml").write_text(yaml.safe_dump({"chain": [provider]}))


@pytest.mark.slow
def test_the_report_recovers_what_was_planted(tmp_path: Path, serve: Serve) -> None:
    after = Planted(first=0.3, right=0.7, fails=0.05)
    before = Planted(first=0.1, right=0.8)
    url = serve(PlantedPairJudge({"": after}, {"": before}).app)
    write_config(tmp_path, url)
    write_lines(tmp_path / "data/llmbar/set.jsonl", map(llmbar_row, range(400)))
    command = [sys.executable, "-m", "assay_shared.cli", "judge", "bench", "llmbar"]
    options = ["--output", "report", "--config", "judge.yaml", "--data", "data"]
    done = subprocess.run(
        command + options, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "first minus second" in done.stdout
    found = Bench.model_validate_json((tmp_path / "report/summary.json").read_bytes())
    for reason, planted in ((Reason.AFTER, after), (Reason.BEFORE, before)):
        one = found.arms[reason].overall
        assert holds(one.accuracy, planted.accuracy)
        assert holds(one.pair_accuracy, (1 - planted.first) * planted.right)
        assert holds(one.flips, planted.first)
        assert holds(one.position, planted.first)
        assert holds(one.failed, planted.fails)
        assert holds(one.kappa_gold, 2 * planted.accuracy - 1)
        cost = found.arms[reason].cost
        # The endpoint counts 100 tokens read and 20 written a request.
        assert (cost.num_requests, cost.prompt_tokens, cost.completion_tokens) == (
            800,
            80000,
            16000,
        )
        assert cost.money == pytest.approx(800 * (100 + 5 * 20) / 1e6)
    assert known(found.arms[Reason.AFTER].overall.position).low > 0.2
    assert holds(found.differences["all"], before.accuracy - after.accuracy)
    assert known(found.differences["all"]).low > 0
    assert set(found.arms[Reason.AFTER].subsets) == {"Natural", "Adversarial/Manual"}
    report = (tmp_path / "report/report.md").read_text()
    for name in ("accuracy", "orders", "position"):
        assert f"figures/{name}.png" in report
        assert (tmp_path / f"report/figures/{name}.png").stat().st_size > 10_000
    assert "an empty reply" in report


@pytest.mark.slow
def test_styles_that_fool_the_judge_show(tmp_path: Path, serve: Serve, bench: Bencher) -> None:
    planted = {
        "easy": Planted(first=0.0, right=0.9),
        "normal": Planted(first=0.2, right=0.7),
        "hard": Planted(first=0.2, right=0.4),
    }
    url = serve(PlantedPairJudge(planted, planted).app)
    write_config(tmp_path, url)
    rows = [rmbench_row(n, "chat" if n % 2 else "code") for n in range(40)]
    write_lines(tmp_path / "data/rmbench/set.jsonl", rows)
    found = bench(SetName.RMBENCH, reasons=(Reason.BEFORE,), concurrency=32)
    (arm,) = found.arms.values()
    assert (found.num_pairs, found.num_rows, found.differences) == (360, 40, {})
    for level, one in planted.items():
        assert holds(arm.difficulties[level].accuracy, one.accuracy)
        assert holds(arm.difficulties[level].position, one.first)
        assert holds(arm.published[level], one.accuracy)
    assert known(arm.styles[2][0]).value > known(arm.styles[0][2]).value
    assert (tmp_path / "report/figures/styles.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_bench_is_resumed_where_it_was_cut_off(
    tmp_path: Path, serve: Serve, bench: Bencher
) -> None:
    """A kill in the middle of a line costs this line; failures and new rows are asked as well."""
    planted = {"": Planted(first=0.2, right=0.7)}
    judge = PlantedPairJudge(planted, planted)
    write_config(tmp_path, serve(judge.app))
    write_lines(tmp_path / "data/llmbar/set.jsonl", map(llmbar_row, range(50)))
    bench(limit=10)
    assert len(judge.prompts) == 10 * 2 * 2
    path = tmp_path / "report/results.jsonl"
    lines = path.read_text().splitlines()
    failed = Result.model_validate_json(lines[1]).model_copy(
        update={"choices": (), "failure": FAILURE}
    )
    kept = [lines[0], failed.model_dump_json(), *lines[2:-1], lines[-1][:40]]
    path.write_text("\n".join(kept))
    judge.prompts.clear()
    found = bench(limit=12)
    assert len(judge.prompts) == 2 + 2 + 2 * 2 * 2
    results = BenchResults(path)
    assert (found.num_pairs, found.num_unasked) == (12, 0)
    assert [arm.overall.outcomes.failed for arm in found.arms.values()] == [0, 0]
    # 25 judgements are 24 of 12 pairs, and the failure that was asked about again.
    assert sum(arm.cost.num_requests for arm in found.arms.values()) == 50
    assert results.money == pytest.approx(50 * 200 / 1e6)
    judge.prompts.clear()
    assert bench(limit=12).model_copy(update={"created": found.created}) == found
    assert judge.prompts == []


@pytest.mark.slow
def test_results_of_another_chain_are_not_mixed(
    tmp_path: Path, serve: Serve, bench: Bencher
) -> None:
    planted = {"": Planted(first=0.2, right=0.7)}
    url = serve(PlantedPairJudge(planted, planted).app)
    write_config(tmp_path, url)
    write_lines(tmp_path / "data/llmbar/set.jsonl", map(llmbar_row, range(4)))
    bench()
    write_config(tmp_path, url, timeout_s=5.0, limits={"concurrency": 2}, cooldown_s=1.0)
    bench()
    write_config(tmp_path, url, temperature=1.0)
    with pytest.raises(Conflict, match="report has results of another chain .choose another"):
        bench()
    write_config(tmp_path, url)
    write_lines(tmp_path / "data/llmbar/set.jsonl", map(llmbar_row, range(5)))
    with pytest.raises(Conflict, match="another digest"):
        bench()
    (tmp_path / "report/bench.json").write_text("{}")
    with pytest.raises(ConfigError, match="bench.json is not of a bench"):
        bench()
    (tmp_path / "report/bench.json").unlink()
    with pytest.raises(Conflict, match="report exists"):
        bench()


@pytest.mark.slow
def test_the_ceiling_stops_the_bench_and_more_money_resumes_it(
    tmp_path: Path, serve: Serve, bench: Bencher
) -> None:
    """A request costs 0.0002 here; requests in flight may go over the ceiling."""
    planted = {"": Planted(first=0.2, right=0.7)}
    judge = PlantedPairJudge(planted, planted)
    write_config(tmp_path, serve(judge.app))
    write_lines(tmp_path / "data/llmbar/set.jsonl", map(llmbar_row, range(30)))
    for ceiling, most in ((0.004, 20 + 8), (0.008, 40 + 8)):
        found = bench(ceiling=ceiling, concurrency=4)
        assert len(judge.prompts) <= most
        assert 0 < found.num_unasked < 60
        assert [arm.overall.outcomes.failed for arm in found.arms.values()] == [0, 0]
    assert "Not complete" in (tmp_path / "report/report.md").read_text()
    assert bench().num_unasked == 0


def test_an_endpoint_that_fails_gives_failures_and_no_measure(
    tmp_path: Path, serve: Serve, bench: Bencher
) -> None:
    write_config(tmp_path, serve(Upstream(400).app))
    write_lines(tmp_path / "data/llmbar/set.jsonl", map(llmbar_row, range(6)))
    with pytest.raises(JudgeFault, match="no pair got a verdict; the most frequent .*HTTP 400"):
        bench()
    found = Bench.model_validate_json((tmp_path / "report/summary.json").read_bytes())
    one = found.arms[Reason.AFTER].overall
    assert (one.outcomes.failed, one.accuracy, known(one.failed).value) == (6, None, 1.0)
    report = (tmp_path / "report/report.md").read_text()
    assert ("accuracy.png" in report, "orders.png" in report) == (False, True)


def test_a_chain_without_a_model_is_refused(tmp_path: Path, bench: Bencher) -> None:
    (tmp_path / "judge.yaml").write_text("chain: [{kind: reference}]\n")
    write_lines(tmp_path / "data/llmbar/set.jsonl", map(llmbar_row, range(6)))
    with pytest.raises(ConfigError, match="chain: no provider of the chain compares two answers"):
        bench()
