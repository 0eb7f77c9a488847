import subprocess
import sys
from pathlib import Path

import pytest

from assay_sandbox.load.footprint import Footprint
from assay_shared.errors import SandboxFault


def test_a_service_that_has_ended_is_a_fault_with_its_process(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    footprint = Footprint(ended.pid, tmp_path)
    assert footprint.sample().server_bytes > 0
    ended.communicate(b"\n")
    with pytest.raises(SandboxFault, match=f"process {ended.pid}.* has ended"):
        footprint.sample()
