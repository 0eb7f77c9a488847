from collections.abc import Iterator

import pytest

from assay_shared.answers.formulas.symbolic import Symbolic
from tests.support.reward.measuring import WORKERS


@pytest.fixture(scope="session", autouse=True)
def workers() -> Iterator[None]:
    """End the processes for measuring long texts."""
    yield
    WORKERS.close()


@pytest.fixture(scope="session")
def symbolic() -> Iterator[Symbolic]:
    """Compares formulas, in its own process."""
    symbolic = Symbolic(20.0)
    yield symbolic
    symbolic.close()
