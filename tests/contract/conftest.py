"""Fixtures of the contract tests."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.browser.chromium import started_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Chromium, for the tests of a file."""
    with started_chromium() as browser:
        yield browser
