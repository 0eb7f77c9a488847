"""summary.json: what was measured of a chain on a set, and how it was asked."""

from datetime import datetime

from assay_judge.bench.names import Reason, SetName
from assay_judge.calibration_record import Estimate, Record


class Outcomes(Record):
    """Pairs by what the two orders' verdicts came to; each pair is in one of these."""

    right_twice: int
    wrong_twice: int
    #: The same place was chosen in both orders: once right and once wrong.
    first_twice: int
    second_twice: int
    #: A tie in one order, or in both.
    tie: int
    failed: int


class Measures(Record):
    """A chain against the gold labels, and against itself with the answers in the other order.

    All but `failed` is of pairs that were judged in both orders. Null where there are none.
    """

    num_pairs: int
    num_rows: int
    outcomes: Outcomes
    #: Of single verdicts, those that name the better answer; a tie does not.
    accuracy: Estimate | None
    #: Of pairs, those right in both orders, or right in one and tied in the other.
    pair_accuracy: Estimate | None
    #: Of pairs, those whose verdict is another one in the other order.
    flips: Estimate | None
    #: Share of pairs with the first place chosen twice, minus that of the second place.
    position: Estimate | None
    #: Cohen's kappa between the two orders, and of single verdicts with the gold labels; ties are
    #: left out.
    kappa_orders: Estimate | None
    kappa_gold: Estimate | None
    #: Of single verdicts.
    ties: Estimate | None
    #: Of all pairs, those without a verdict in one order or both: never right, never wrong.
    failed: Estimate | None


class BenchCost(Record):
    """What a prompt's judgements cost, those in vain included; `money` is in the prices' unit."""

    num_pairs: int
    num_requests: int
    prompt_tokens: int
    completion_tokens: int
    money: float


class Arm(Record):
    """What was measured with one of the two prompts."""

    overall: Measures
    subsets: dict[str, Measures]
    difficulties: dict[str, Measures]
    #: Of RM-Bench: accuracy by style of the better answer (rows) and of the worse (columns).
    styles: tuple[tuple[Estimate | None, ...], ...] = ()
    #: As the set's authors report it.
    published: dict[str, Estimate | None]
    cost: BenchCost
    #: Pairs by the judge that decided them, and the most frequent failures.
    judges: dict[str, int]
    failures: dict[str, int]
    templates: tuple[str, ...]


class Bench(Record):
    """The file. `differences` are accuracies with the reason before minus after, by group."""

    created: datetime
    set: SetName
    digest: str
    num_identical: int
    chain: dict[str, str]
    seed: int
    limit: int | None
    num_pairs: int
    num_rows: int
    #: Pairs and prompts that the ceiling left unasked.
    num_unasked: int
    arms: dict[Reason, Arm]
    differences: dict[str, Estimate | None]
