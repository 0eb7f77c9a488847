import os
import re
import subprocess
import sys

import pytest

from assay_shared.local.launcher import Launcher
from tests.support.examples import EXAMPLES


@pytest.mark.promise("a policy learns over the services")
def test_the_example_learns_over_the_services(mesh: Launcher) -> None:
    """By chance a tenth of the answers are right."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "grpo_in_one_file.py")],
        env={**os.environ, **mesh.environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    means = [float(mean) for mean in re.findall(r"mean reward (\S+)", done.stdout)]
    assert len(means) == 80
    assert sum(means[:5]) / 5 < 0.35
    assert sum(means[-10:]) / 10 > 0.65
    assert done.stdout.count("failed 0") == 80
