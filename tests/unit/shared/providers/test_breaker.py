import pytest

from assay_shared.providers.breaker import Breaker, BreakerOpen


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_opens_after_failures_in_a_row_and_tries_once_after_the_cooldown() -> None:
    clock = Clock()
    breaker = Breaker(3, 10.0, clock)
    for _ in range(2):
        breaker.enter()
        breaker.failed()
    breaker.enter()
    breaker.succeeded()  # not in a row
    for _ in range(3):
        breaker.enter()
        breaker.failed()
    assert breaker.is_open
    with pytest.raises(BreakerOpen, match="3 failures in a row") as refused:
        breaker.enter()
    assert refused.value.retry_after_s == 10.0
    assert refused.value.retryable
    clock.now = 10.0
    breaker.enter()  # one may try
    with pytest.raises(BreakerOpen):
        breaker.enter()
    breaker.failed()
    clock.now = 19.0
    with pytest.raises(BreakerOpen):
        breaker.enter()
    clock.now = 20.0
    breaker.enter()
    breaker.succeeded()
    assert not breaker.is_open
    breaker.enter()


def test_a_try_that_is_given_up_lets_another_one_try() -> None:
    clock = Clock()
    breaker = Breaker(1, 5.0, clock)
    breaker.failed()
    clock.now = 5.0
    breaker.enter()
    breaker.left()
    breaker.enter()
