"""Promises of the README: each is held by the tests with its marker.

A test holds a promise by `@pytest.mark.promise("the promise's sentence")`. `make test` runs every
such test, however long it takes; this file fails when the last test of a promise is gone.
"""

from tests.support.markers import sentences

PROMISES = (
    "a failure is never a score",
    "one judge scores a group",
    "each group counts once, whatever is killed",
    "weights are proven to have landed",
    "overload is refused, and no client starves another",
    "evaluation is honest: test data cannot be trained on, and pass@k is unbiased",
    "verdicts equal plain Python's",
    "strangers cannot fool a score",
    "a policy learns over the services",
)


def test_each_promise_is_held_by_a_test_and_each_marker_names_a_promise() -> None:
    held = sentences("promise")
    assert held.keys() == set(PROMISES)
