"""An interpreter with the double as its `vllm`: version, module and all."""

import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from assay_inference.settings import InferenceSettings

_ROOT = Path(__file__).parents[3]
VERSION = "0.32.0"
START_TIMEOUT_S = 180.0


@cache
def double_python() -> Path:
    """Return an executable: this interpreter, with the double added."""
    folder = Path(mkdtemp(prefix="assay-test-vllm-"))
    package = folder / "site" / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    for each in (package, package.parent, package.parent.parent):
        (each / "__init__.py").touch()
    (package / "api_server.py").write_text(
        "import sys\nfrom tests.support.vllm.double import main\nmain(sys.argv[1:])\n"
    )
    info = folder / "site" / f"vllm-{VERSION}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}\n")
    python = folder / "python"
    paths = f'"$PYTHONPATH:{folder / "site"}:{_ROOT}"'  # the worker's own modules come first
    python.write_text(f'#!/bin/sh\nexport PYTHONPATH={paths}\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return python


def double_settings(**values: object) -> InferenceSettings:
    usual = {
        "inference_engine": "vllm",
        "inference_vllm_python": double_python(),
        "inference_start_timeout_s": START_TIMEOUT_S,
    }
    return InferenceSettings.model_validate(usual | values)
