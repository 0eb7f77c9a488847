"""Statistics against libraries and published values; the command against planted errors."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import stats
from sklearn import metrics

from assay_judge.calibration import bias, measures, probes, statistics
from assay_judge.calibration.examples import read_examples
from assay_judge.calibration.log import Winner
from assay_judge.calibration.run import run_calibration
from assay_judge.calibration_record import Calibration, Estimate, JudgeCalibration
from assay_judge.config import Requirement
from assay_judge.providers.qualification import Qualification
from assay_shared.errors import ConfigError, DatasetError, NotReady
from tests.conftest import Serve
from tests.support.calibrations import calibrated, seen, settings
from tests.support.planted_judge import NUM_FICKLE, PlantedJudge, write_examples
from tests.support.upstream import Upstream, says, verdict

NUM_DRAWS = 2000


def known(estimate: Estimate | None) -> Estimate:
    assert estimate is not None
    return estimate


# Statistics


def test_agreement_is_scikit_learns() -> None:
    rng = np.random.default_rng(1)
    gold = rng.choice(["CORRECT", "INCORRECT"], size=300, p=[0.7, 0.3])
    wrong = {"CORRECT": "INCORRECT", "INCORRECT": "CORRECT"}
    said = np.array([wrong[one] if rng.random() < 0.2 else one for one in gold])
    undecided = [seen("CORRECT", "UNSURE"), seen("CORRECT", None), seen("INCORRECT", None)]
    decided = [seen(a, b) for a, b in zip(gold, said, strict=True)]
    measured = measures.agreement(decided + undecided)
    assert known(measured.kappa).value == pytest.approx(metrics.cohen_kappa_score(gold, said))
    assert known(measured.accuracy).value == pytest.approx(metrics.accuracy_score(gold, said))
    for rate, label in (
        (measured.false_negative_rate, "CORRECT"),
        (measured.false_positive_rate, "INCORRECT"),
    ):
        recall = metrics.recall_score(gold, said, pos_label=label)
        assert known(rate).value == pytest.approx(1 - recall)
    matrix = metrics.confusion_matrix(gold, said, labels=["CORRECT", "INCORRECT"])
    of_correct, of_incorrect = measured.of_correct, measured.of_incorrect
    assert matrix.tolist() == [
        [of_correct.correct, of_correct.incorrect],
        [of_incorrect.correct, of_incorrect.incorrect],
    ]


def test_what_was_not_decided_is_no_label() -> None:
    rows = [("CORRECT", "CORRECT"), ("INCORRECT", "UNSURE"), ("INCORRECT", None), ("CORRECT", None)]
    measured = measures.agreement([seen(*row) for row in rows])
    assert measured.coverage.value == 0.25
    assert (measured.unsure.value, measured.abstained.value) == (0.25, 0.5)
    assert known(measured.accuracy).n == 1
    assert measured.false_positive_rate is None
    assert measured.kappa is None


def test_values_are_the_published_ones() -> None:
    """Newcombe 1998 (17:857, table I; 17:873, table II), a textbook's kappa, McNemar by hand."""
    wilson = known(statistics.proportion(81, 263))
    assert (wilson.low, wilson.high) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    first, second = statistics.proportion(56, 70), statistics.proportion(48, 80)
    difference = statistics.difference(known(first), known(second))
    assert difference.value == pytest.approx(0.2)
    assert (difference.low, difference.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert known(statistics.kappa(20, 5, 10, 15)).value == pytest.approx(0.4)
    test = statistics.mcnemar([(True, False)] + [(False, True)] * 8 + [(True, True)] * 30)
    assert (test.only_primary, test.only_this) == (1, 8)
    assert test.p == pytest.approx(2 * (1 + 9) / 2**9)
    assert statistics.mcnemar([(True, True)]).p == 1.0


def test_kappa_is_none_where_both_say_one_word_and_has_width_where_they_agree() -> None:
    assert statistics.kappa(0, 0, 0, 0) is None
    assert statistics.kappa(9, 0, 0, 0) is None
    assert known(statistics.kappa(9, 1, 0, 0)).value == 0.0
    perfect = known(statistics.kappa(10, 0, 0, 10))
    assert (perfect.value, perfect.high) == (1.0, 1.0)
    assert 0.5 < perfect.low < 0.9


def covered(truth: float, estimates: Sequence[Estimate | None]) -> float:
    return float(np.mean([one is not None and one.low <= truth <= one.high for one in estimates]))


def assert_nominal(share: float) -> None:
    """Within three Monte-Carlo standard errors of 95%, of as many draws."""
    assert share == pytest.approx(0.95, abs=3 * (0.95 * 0.05 / NUM_DRAWS) ** 0.5)


def test_intervals_of_proportions_and_differences_cover_at_their_nominal_rate() -> None:
    rng = np.random.default_rng(2)
    counts = rng.binomial(80, 0.2, NUM_DRAWS), rng.binomial(120, 0.35, NUM_DRAWS)
    first = [statistics.proportion(int(one), 80) for one in counts[0]]
    second = [statistics.proportion(int(one), 120) for one in counts[1]]
    assert_nominal(covered(0.2, first))
    assert_nominal(covered(0.35, second))
    pairs = zip(first, second, strict=True)
    differences = [statistics.difference(known(a), known(b)) for a, b in pairs]
    assert_nominal(covered(0.2 - 0.35, differences))


@pytest.mark.parametrize(
    ("num", "share_correct", "sensitivity", "specificity"),
    [(50, 0.8, 0.7, 0.6), (100, 0.8, 0.9, 0.8), (200, 0.5, 0.9, 0.9)],
)
@pytest.mark.slow
def test_intervals_of_kappa_cover_at_their_nominal_rate(
    num: int, share_correct: float, sensitivity: float, specificity: float
) -> None:
    assert_nominal(kappa_coverage(num, share_correct, sensitivity, specificity))


def test_intervals_of_kappa_hold_with_few_examples_and_hardly_an_error() -> None:
    """At this point the asymptotic interval, and the bootstrap's, covers 67%."""
    assert kappa_coverage(20, 0.5, 0.95, 0.95) > 0.91


def kappa_coverage(num: int, share_correct: float, sensitivity: float, specificity: float) -> float:
    cells = np.array(
        [
            share_correct * sensitivity,
            share_correct * (1 - sensitivity),
            (1 - share_correct) * (1 - specificity),
            (1 - share_correct) * specificity,
        ]
    )
    says = cells[0] + cells[2]
    by_chance = share_correct * says + (1 - share_correct) * (1 - says)
    truth = (cells[0] + cells[3] - by_chance) / (1 - by_chance)
    draws = np.random.default_rng(3).multinomial(num, cells, NUM_DRAWS)
    tables = Counter(tuple(map(int, draw)) for draw in draws)
    estimates = [
        one for table, times in tables.items() for one in [statistics.kappa(*table)] * times
    ]
    return covered(float(truth), estimates)


def test_intervals_of_the_length_bias_cover_none_at_their_nominal_rate() -> None:
    """Right answers are twice as long; this alone does not count as bias."""
    rng = np.random.default_rng(4)
    estimates = []
    for _ in range(NUM_DRAWS):
        gold = rng.random(100) < 0.5
        sizes = rng.exponential(100 + 100 * gold)
        says = rng.random(100) < np.where(gold, 0.8, 0.3)
        estimates.append(
            statistics.stratified_correlation(says.tolist(), sizes.tolist(), gold.tolist())
        )
    assert_nominal(covered(0.0, estimates))


def test_length_bias_is_spearmans_correlation_within_a_gold_label() -> None:
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 60, 80).tolist()
    says = [rng.random() < (0.2 + size / 100) for size in sizes]
    one = known(statistics.stratified_correlation(says, sizes, [False] * 80))
    assert one.value == pytest.approx(stats.spearmanr(says, sizes).statistic)
    assert one.low < one.value < one.high


def test_length_bias_is_that_of_errors_only() -> None:
    label = {True: "CORRECT", False: "INCORRECT"}
    lengths = [(n, n % 2 == 0) for n in range(1, 81)]
    fair = [seen(label[gold], label[gold], n, "x" * (n + 50 * gold)) for n, gold in lengths]
    lenient = [seen(label[gold], label[n > 40], n, "x" * n) for n, gold in lengths]
    strict = [seen(label[gold], label[n < 40], n, "x" * n) for n, gold in lengths]
    assert bias.length_bias(fair) is None
    assert known(bias.length_bias(lenient)).low > 0.5
    assert known(bias.length_bias(strict)).high < -0.5


def test_position_bias_is_flips_and_which_side_they_take() -> None:
    pairs: list[tuple[Winner, Winner]] = [("B", "A"), ("tie", "A")]
    pairs += [("A", "A")] * 5
    pairs += [("A", "B")] * 3
    found = bias.position_bias(pairs)
    assert found is not None
    assert (found.flips.value, found.flips.n) == (0.5, 10)
    assert found.first_of_flips is not None
    assert (found.first_of_flips.value, found.first_of_flips.n) == (0.75, 4)
    ties = bias.position_bias([("tie", "tie")])
    assert ties is not None
    assert ties.first_of_flips is None
    assert bias.position_bias([]) is None


async def test_a_judge_that_likes_what_stands_first_is_found_out(
    serve: Serve, tmp_path: Path
) -> None:
    def reply(asked: dict[str, object]) -> dict[str, object]:
        prompt = str(asked["messages"])
        if "<first>" not in prompt:
            return verdict("CORRECT")
        swayed = "Question 0" in prompt or "Question 1" in prompt
        right_first = prompt.index("right answer") < prompt.index("wrong answer")
        return says(json.dumps({"better": "FIRST" if swayed or right_first else "SECOND"}))

    lines = [
        {"id": f"{n}{label}", "question": f"Question {n}", "answer": text, "label": label}
        for n in range(8)
        for label, text in (("CORRECT", "right answer"), ("INCORRECT", "wrong answer"))
    ]
    file = tmp_path / "examples.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    config = tmp_path / "judge.yaml"
    url = serve(Upstream(reply).app)
    provider = {"kind": "openai", "name": "swayed", "base_url": f"{url}/v1", "model": "m"}
    config.write_text(yaml.safe_dump({"chain": [provider, {"kind": "reference"}]}))
    await asyncio.to_thread(
        run_calibration, file, tmp_path / "out", config, num_repeats=1, with_probes=False
    )
    swayed, reference = Calibration.read(tmp_path / "out" / "calibration.json").judges
    assert swayed.position_bias is not None
    assert (swayed.position_bias.flips.value, swayed.position_bias.flips.n) == (0.25, 8)
    assert swayed.position_bias.first_of_flips is not None
    assert swayed.position_bias.first_of_flips.value == 1.0
    assert reference.position_bias is None
    assert "winner turns" in (tmp_path / "out" / "report.md").read_text()


def test_a_family_is_the_first_word_of_a_models_name() -> None:
    names = ["openai/gpt-oss-120b", "GPT-4o", "Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B", "7"]
    assert [bias.family(name) for name in names] == ["gpt", "gpt", "qwen", "llama", None]


# Examples


def line(**changes: object) -> str:
    fields = {"id": "a", "question": "q", "answer": "x", "label": "CORRECT"} | changes
    return json.dumps({name: value for name, value in fields.items() if value is not None})


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{", r"examples.jsonl:2: not JSON"),
        ("id,question,answer", r"examples.jsonl:2: not JSON: .*must be JSON Lines: one JSON value"),
        (line(label=["CORRECT"]), r'label: .*:2: must be CORRECT or INCORRECT, and is \["CORR'),
        (
            line(id="b", label="INCORRECT"),
            r"^label: \S*examples.jsonl:2: INCORRECT, but line 1 has the same question, reference "
            r"and answer as CORRECT \(remove the wrong line, or both\)$",
        ),
        (
            line(label="UNSURE"),
            r'^label: \S*:2: must be CORRECT or INCORRECT, and is "UNSURE"$',
        ),
        (line(label=None), r"label: .*examples.jsonl:2: Field required"),
        (line(gold="x"), r"gold: .*examples.jsonl:2: Extra inputs"),
        (line(question=""), r"question: .*examples.jsonl:2: String should have at least 1"),
        (line(), r"id: .*examples.jsonl:2: 'a' stands in line 1 already"),
        ("[]", r"examples.jsonl:2: Input should be an object"),
    ],
)
def test_a_bad_line_is_named_with_its_field(tmp_path: Path, bad: str, message: str) -> None:
    path = tmp_path / "examples.jsonl"
    path.write_text(f"{line()}\n{bad}\n")
    with pytest.raises(DatasetError, match=message):
        read_examples(path)


def test_examples_need_both_labels(tmp_path: Path) -> None:
    path = tmp_path / "examples.jsonl"
    path.write_text(line(answer="one\u2028line") + "\n")
    with pytest.raises(DatasetError, match="needs examples of both labels"):
        read_examples(path)
    with pytest.raises(DatasetError, match="there is no file"):
        read_examples(tmp_path / "none")
    path.write_text("\n")
    with pytest.raises(DatasetError, match=r"examples.jsonl has no examples$"):
        read_examples(path)


def test_equal_rows_are_one_example(tmp_path: Path) -> None:
    path = tmp_path / "examples.jsonl"
    rows = [line(id=str(n)) for n in range(30)]
    others = [line(id="x", label="INCORRECT", answer="y"), line(id="z", reference="r")]
    path.write_text("\n\n".join([*rows, *others]))
    found = read_examples(path)
    assert [one.id for one in found.examples] == ["0", "x", "z"]
    assert found.repeated == [2 * n + 1 for n in range(1, 30)]


# Probes


def test_each_probe_attacks_and_keeps_the_answer() -> None:
    example = seen("INCORRECT", "INCORRECT", answer="it is {5}").example
    attacked = [probe.attack(example).answer for probe in probes.PROBES]
    assert len(set(attacked)) == len(probes.PROBES) >= 13
    assert all("it is {5}" in one and one != example.answer for one in attacked)


def test_only_caught_wrong_answers_are_attacked_spread_over_the_file() -> None:
    rows = [("INCORRECT", "INCORRECT"), ("INCORRECT", "CORRECT"), ("CORRECT", "INCORRECT")]
    observations = [seen(*row, number=n) for n, row in enumerate(rows * 100)]
    chosen = [int(example.id) for example in probes.choose(observations)]
    assert len(chosen) == probes.MAX_PROBED
    assert all(number % 3 == 0 for number in chosen)
    assert max(chosen) > 280
    assert probes.choose(observations[1:3]) == []


# The command


@pytest.fixture
def calibrate(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "assay_shared.cli", "judge", "calibrate", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


Calibrate = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def planted(tmp_path: Path, serve: Serve, calibrate: Calibrate) -> Calibration:
    """A judge with known errors before the reference provider without errors."""
    url = serve(PlantedJudge(write_examples(tmp_path / "examples.jsonl")).app)
    (tmp_path / "judge.yaml").write_text(
        f"chain:\n  - {{kind: openai, name: planted, base_url: {url}/v1, model: planted-7b}}\n"
        "  - {kind: reference}\n"
    )
    done = calibrate("examples.jsonl", "--output", "report", "--config", "judge.yaml")
    assert done.returncode == 0, done.stderr
    assert "0.71 [" in done.stdout
    return Calibration.read(tmp_path / "report/calibration.json")


def check_planted(judge: JudgeCalibration) -> None:
    """Kappa is 2 * accuracy - 1 here: as many decided answers are right as are wrong."""
    overall = judge.overall
    assert known(overall.kappa).value == pytest.approx(2 * 164 / 192 - 1)
    assert known(judge.domains["math"].kappa).value == pytest.approx(0.7)
    assert known(judge.domains["law"].kappa).value == pytest.approx(52 / 72)
    assert known(overall.false_positive_rate).value == pytest.approx(16 / 96)
    assert known(overall.false_negative_rate).value == pytest.approx(12 / 96)
    assert overall.coverage.value == pytest.approx(192 / 200)
    assert (overall.unsure.value, overall.abstained.value) == (2 / 200, 6 / 200)
    assert sum(judge.failures.values()) == 6
    assert judge.stability is not None
    assert judge.stability.same_outcome.value == pytest.approx(1 - NUM_FICKLE / 200)
    assert known(judge.stability.flips).value == pytest.approx(NUM_FICKLE / 192)
    assert known(judge.length_bias).low > 0
    assert judge.self_preference is not None
    assert judge.self_preference.family == "planted"
    assert judge.self_preference.own.value == pytest.approx(12 / 52)
    assert judge.self_preference.others.value == pytest.approx(4 / 44)
    flips = {probe.name: known(probe.flips).value for probe in judge.probes}
    assert flips.pop("order") == 1.0
    # 48 of the 80 wrong answers that it caught are mathematics, and so are 30 of the 50 attacked.
    assert flips.pop("forged verdict") == 0.6
    assert set(flips.values()) == {0.0}


@pytest.mark.slow
def test_the_command_measures_what_was_planted(planted: Calibration, tmp_path: Path) -> None:
    judge, reference = planted.judges
    assert (judge.judge, judge.model, judge.template is None) == ("planted", "planted-7b", False)
    check_planted(judge)
    assert known(reference.overall.kappa).value == 1.0
    assert (reference.model, reference.template, reference.self_preference) == (None, None, None)
    assert reference.against_primary is not None
    assert reference.against_primary.primary == "planted"
    assert known(reference.against_primary.agreement).value == pytest.approx(164 / 192)
    is_right = reference.against_primary.is_right
    assert (is_right.only_this, is_right.only_primary) == (28, 0)
    says = reference.against_primary.says_correct
    assert (says.only_this, says.only_primary) == (12, 16)
    folder = tmp_path / "report"
    report = (folder / "report.md").read_text()
    assert "0.70 [" in report
    for name in ("kappa", "confusion", "reliability", "probes"):
        assert f"figures/{name}.png" in report
        assert (folder / f"figures/{name}.png").stat().st_size > 10_000
    lines = (folder / "judgements.jsonl").read_text().splitlines()
    # Two repeats and each probe's wrong answers, of both judges.
    assert len(lines) == 2 * (2 * 200 + len(probes.PROBES) * probes.MAX_PROBED)


@pytest.mark.slow
def test_the_reference_provider_alone_needs_no_configuration(
    tmp_path: Path, calibrate: Calibrate
) -> None:
    write_examples(tmp_path / "examples.jsonl")
    arguments = ("examples.jsonl", "--output", "report", "--repeats", "1", "--no-probes")
    done = calibrate(*arguments)
    assert done.returncode == 0, done.stderr
    (judge,) = Calibration.read(tmp_path / "report/calibration.json").judges
    assert (judge.judge, judge.stability, judge.probes) == ("reference", None, ())
    again = calibrate(*arguments)
    assert (again.returncode, again.stderr) == (
        3,
        "error: report exists (choose another folder with --output)\n",
    )


def test_without_its_extra_the_command_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['scipy'] = None; from assay_shared.cli import main; "
        "main(['judge', 'calibrate', 'x.jsonl', '--output', 'y'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (
        2,
        "error: `assay judge calibrate` needs scipy, which is not installed "
        "(pip install 'assay-rl[calibrate]')\n",
    )


# The requirement


def test_the_service_requires_without_the_extra() -> None:
    code = (
        "import sys, assay_judge.providers.qualification; "
        "print({'numpy', 'scipy', 'matplotlib', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n", done.stderr


def test_a_judge_that_is_good_enough_may_serve(tmp_path: Path) -> None:
    path = calibrated(tmp_path, age_days=6)
    requirement = Requirement(file=path, minimum_kappa=0.7, domains={"law": -0.5}, max_age_days=7)
    for domain in (None, "math", "law"):
        Qualification(requirement, "primary", settings()).check("abc", domain)


def test_the_point_estimate_decides_and_the_refusal_says_so(tmp_path: Path) -> None:
    requirement = Requirement(file=calibrated(tmp_path), minimum_kappa=0.71)
    with pytest.raises(
        ConfigError,
        match=r"^judge 'primary' may serve domain 'math' only while kappa is at least 0.71: "
        r"it is 0.70 \[0.5\d, 0.8\d\] on 120 examples \(the point estimate decides\)$",
    ):
        Qualification(requirement, "primary", settings()).check("abc", "math")


@pytest.mark.parametrize(
    ("judge", "template", "domain", "message"),
    [
        ("primary", "abc", "law", "'law' only while kappa is at least 0.5: it is 0.00"),
        ("primary", "abc", "art", r"not calibrated in domain 'art' \(.*has: 'math', 'law'\)"),
        ("primary", "abd", None, "calibrated with prompt abc and uses abd"),
        ("other", "abc", None, r"'other' was not calibrated \(.*has: 'primary'\)"),
    ],
)
def test_what_was_not_measured_or_is_too_low_is_refused(
    tmp_path: Path, judge: str, template: str, domain: str | None, message: str
) -> None:
    requirement = Requirement(file=calibrated(tmp_path), minimum_kappa=0.5)
    with pytest.raises(ConfigError, match=message):
        Qualification(requirement, judge, settings()).check(template, domain)


def test_an_old_missing_or_broken_file_is_refused(tmp_path: Path) -> None:
    old = Requirement(file=calibrated(tmp_path, 8), minimum_kappa=0.5, max_age_days=7)
    qualification = Qualification(old, "primary", settings())
    with pytest.raises(NotReady, match=r"is 8.0 days old; 7 are allowed \(calibrate again"):
        qualification.check("abc", None)
    future = Requirement(file=calibrated(tmp_path, -2), minimum_kappa=0.5, max_age_days=7)
    with pytest.raises(NotReady, match=r"is in the future \(correct this machine's clock"):
        Qualification(future, "primary", settings()).check("abc", None)
    none = Requirement(file=tmp_path / "none.json", minimum_kappa=0.5)
    with pytest.raises(ConfigError, match="there is no calibration"):
        Qualification(none, "primary", settings())
    old.file.write_text("{}")
    with pytest.raises(ConfigError, match=r"it has no created \(calibrate again\)"):
        Qualification(old, "primary", settings())
