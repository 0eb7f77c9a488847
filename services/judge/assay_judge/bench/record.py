"""The contents of summary.json: the measurements of a chain on a set, and their conditions."""

from datetime import datetime

from assay_judge.bench.names import Reason, SetName
from assay_judge.calibration_record import Estimate, Record


class Outcomes(Record):
    """Numbers of pairs by the outcome of both orders; the outcomes exclude each other."""

    right_twice: int
    wrong_twice: int
    #: The same place was chosen in both orders: right in one order and wrong in the other.
    first_twice: int
    second_twice: int
    #: A tie in one order, or in both.
    tie: int
    failed: int


class Measures(Record):
    """Agreement of a chain with the gold labels, and with itself in the other order of answers.

    All but `failed` is over pairs judged in both orders. A measure is null without such pairs.
    """

    num_pairs: int
    num_rows: int
    outcomes: Outcomes
    #: Share of single verdicts that name the better answer; a tie does not.
    accuracy: Estimate | None
    #: Share of pairs right in both orders, or right in one order and tied in the other.
    pair_accuracy: Estimate | None
    #: Share of pairs with another verdict in the other order.
    flips: Estimate | None
    #: Share of pairs with the first place chosen twice, minus that of the second place.
    position: Estimate | None
    #: Cohen's kappa between the two orders, and of single verdicts with the gold labels; ties are
    #: left out.
    kappa_orders: Estimate | None
    kappa_gold: Estimate | None
    #: Share of single verdicts.
    ties: Estimate | None
    #: Share of all pairs without a verdict in one order or both; they count neither as right nor
    #: as wrong.
    failed: Estimate | None


class BenchCost(Record):
    """The cost of a prompt's judgements, failed ones included; `money` is in the prices' unit."""

    num_pairs: int
    num_requests: int
    prompt_tokens: int
    completion_tokens: int
    money: float


class Arm(Record):
    """All measurements with one of the two prompts."""

    overall: Measures
    subsets: dict[str, Measures]
    difficulties: dict[str, Measures]
    #: RM-Bench only: accuracy by style of the better answer (rows) and of the worse (columns).
    styles: tuple[tuple[Estimate | None, ...], ...] = ()
    #: Accuracies as the set's authors report them.
    published: dict[str, Estimate | None]
    cost: BenchCost
    #: Numbers of pairs by deciding judge, and of the most frequent failures.
    judges: dict[str, int]
    failures: dict[str, int]
    templates: tuple[str, ...]


class Bench(Record):
    """The whole of summary.json.

    `differences` has, by group, the accuracy with the reason before the verdict minus the accuracy
    with the reason after it.
    """

    created: datetime
    set: SetName
    digest: str
    num_identical: int
    chain: dict[str, str]
    seed: int
    limit: int | None
    num_pairs: int
    num_rows: int
    #: Judgements (pair and prompt) not asked, because the ceiling was reached.
    num_unasked: int
    arms: dict[Reason, Arm]
    differences: dict[str, Estimate | None]
