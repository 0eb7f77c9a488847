"""Each group asked for is trained on, discarded, or in flight."""

from assay_trainer.browser.facts.group_account import GroupAccount, group_account
from assay_trainer.events import StepEvent
from tests.unit.trainer.evaluation.test_report import make_step


def step(number: int, asked: int | None, in_flight: int, **changes: object) -> StepEvent:
    values = {"num_groups": 4, "num_played": 6, "num_flat_before": 0, "failures": {"judge": 1}}
    given = {"num_asked": asked, "num_in_flight": in_flight} | values | changes
    return make_step(number, **given)


def test_the_numbers_of_all_steps_add_up() -> None:
    steps = {1: step(1, 9, 3), 2: step(2, 20, 3, num_flat_before=5)}
    found = group_account(steps, 0)
    assert found == GroupAccount(2, asked=20, trained=8, discarded=9, in_flight=3, failed_samples=2)
    assert found.missing == 0


def test_a_lost_group_and_one_that_counts_twice_are_seen() -> None:
    for asked, missing in ((10, 1), (8, -1)):
        found = group_account({1: step(1, asked, 3)}, 0)
        assert found is not None
        assert found.missing == missing


def test_a_resume_asks_again_for_what_was_in_flight() -> None:
    """After step 2, a new process begins: it counts its own groups alone."""
    steps = {1: step(1, 9, 3), 2: step(2, 16, 4), 3: step(3, 10, 4)}
    found = group_account(steps, resumed_at=2)
    assert found is not None
    assert (found.asked, found.missing) == (22, 0)


def test_events_without_the_numbers_have_no_account() -> None:
    assert group_account({}, 0) is None
    assert group_account({1: step(1, None, 0)}, 0) is None
