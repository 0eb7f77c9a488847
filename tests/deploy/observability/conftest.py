"""A single reading of the real services for all tests of pages, dashboards and rules."""

import pytest

from assay_shared.telemetry.logs import quiet_transformers
from tests.conftest import _serving
from tests.support.observability.exported import Families, export_all
from tests.support.policies import SERVABLE, make_policy_folder


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Families]:
    """Return families by service, after the end of all services."""
    quiet_transformers()
    folder = tmp_path_factory.mktemp("exported")
    make_policy_folder(folder / "policy", config=SERVABLE)
    with pytest.MonkeyPatch.context() as patch, _serving() as serve:
        patch.setenv("ASSAY_SANDBOX_MINIMUM_ISOLATION", "fallback")
        return export_all(serve, folder, folder / "policy")
