from collections.abc import Iterator

import pytest

from assay_shared.symbolic import Symbolic


@pytest.fixture(scope="session")
def symbolic() -> Iterator[Symbolic]:
    """Compares formulas, in its own process."""
    symbolic = Symbolic(timeout_s=20.0)
    yield symbolic
    symbolic.close()
