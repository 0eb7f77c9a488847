"""Files tracked by git hold no secret."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: What keys look like, each with one that was made up, in pieces: this file is searched too.
KINDS = {
    "private key": (r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----", "-----BEGIN " + "PRIVATE KEY-----"),
    "AWS": (r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", "AKIA" + "Q" * 16),
    "GitHub": (r"\b(?:gh[pousr]_\w{36}|github_pat_\w{50,})", "ghp_" + "a1" * 18),
    "Slack": (r"\bxox[abprs]-[\w-]{20,}", "xoxb-" + "1" * 24),
    "OpenAI or Anthropic": (r"\bsk-(?:ant-|proj-)?[\w-]{32,}", "sk-" + "ant-" + "b2" * 20),
    "Hugging Face": (r"\bhf_[A-Za-z]{34}\b", "hf_" + "c" * 34),
    "Google": (r"\bAIza[\w-]{35}", "AIza" + "d" * 35),
    "PyPI": (r"\bpypi-Ag[\w-]{50,}", "pypi-" + "Ag" + "e" * 60),
    "JSON web token": (
        r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
        ".".join(["eyJ" + "f" * 12] * 3),
    ),
    "password in an address": (
        r"\b[a-z]{4,10}://[^\s:/@]*:[^\s:/@${}<>]{12,}@",
        "redis://:" + "i" * 12 + "@redis:6379/0",
    ),
    "token of Assay": (
        r"ASSAY_(?:[A-Z]+_)?(?:TOKEN|PASSWORD)[=:] ?[\"']?[\w-]{24,}",
        "ASSAY_" + "JUDGE_TOKEN=" + "0a1b2c3d" * 4,
    ),
}
#: Files that hold keys by their nature.
KEY_FILES = re.compile(
    r"(?:^|/)(?:\.env|id_[a-z0-9]+|.*\.(?:pem|key|p12|pfx|kdbx)|\.netrc|\.pypirc)$"
)


def tracked() -> list[str]:
    shown = subprocess.run(
        ["git", "ls-files", "-z"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return [name for name in shown.stdout.split("\0") if name]


@pytest.mark.parametrize("kind", KINDS)
def test_no_tracked_file_holds_a_secret(kind: str) -> None:
    pattern = re.compile(KINDS[kind][0])
    assert pattern.search(f'key = "{KINDS[kind][1]}"'), "one that is there has to be found"
    found = [
        f"{name}:{number}"
        for name in tracked()
        if (ROOT / name).is_file()
        for number, line in enumerate((ROOT / name).read_text(errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_no_key_file_is_tracked() -> None:
    assert KEY_FILES.search("deploy/.env")
    assert KEY_FILES.search("tls/server.key")
    assert [name for name in tracked() if KEY_FILES.search(name)] == []
