"""An interpreter with the double as its `sglang`: version, module and all."""

import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from assay_inference.settings import InferenceSettings

_ROOT = Path(__file__).parents[3]
#: Whose source the double follows.
VERSION = "0.5.23"
START_TIMEOUT_S = 180.0


def make_python(folder: Path, version: str = VERSION) -> Path:
    """Return an executable: this interpreter, with `sglang` of `version` added."""
    package = folder / "site" / "sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "launch_server.py").write_text(
        "import sys\nfrom tests.support.sglang.double import main\nmain(sys.argv[1:])\n"
    )
    info = folder / "site" / f"sglang-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n")
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="{folder / "site"}:{_ROOT}"\nexec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    return python


@cache
def sglang_python() -> Path:
    return make_python(Path(mkdtemp(prefix="assay-test-sglang-")))


def sglang_settings(**values: object) -> InferenceSettings:
    usual = {
        "inference_engine": "sglang",
        "inference_sglang_python": sglang_python(),
        "inference_start_timeout_s": START_TIMEOUT_S,
    }
    return InferenceSettings.model_validate(usual | values)
