"""With a share of sandbox and judge calls failing for good, the rest is unchanged."""

import pytest

from assay_judge.app import create_app as create_judge
from assay_judge.settings import JudgeSettings
from assay_sandbox.app import create_app as create_sandbox
from assay_sandbox.settings import SandboxSettings
from bench.failure_injection import SHARES, damage, flaky, make_requests, reward_of, score
from tests.conftest import Serve


@pytest.fixture
def neighbours(serve: Serve) -> tuple[str, str]:
    return serve(create_sandbox(SandboxSettings())), serve(create_judge(JudgeSettings()))


@pytest.mark.rule("a sandbox that fails has judged nothing")
async def test_survivors_have_the_advantages_they_would_have_without_the_failed(
    serve: Serve, neighbours: tuple[str, str]
) -> None:
    requests = make_requests(24)
    true = await score(serve(reward_of(*neighbours)), requests)
    assert all(reward is not None for group in true for reward in group)
    for share in SHARES:
        sandbox, judge = (serve(flaky(url, share)) for url in neighbours)
        seen = await score(serve(reward_of(sandbox, judge)), requests)
        found = damage(share, true, seen)
        assert 0 < found.num_failed < found.num_samples
        assert found.largest_difference == 0.0
        assert found.left_out.pushed_down == 0.0
        assert found.left_out.num_trained_on == found.num_samples - found.num_failed
        kept = [(a, b) for pair in zip(true, seen, strict=True) for a, b in zip(*pair, strict=True)]
        assert all(a == b for a, b in kept if b is not None), "no survivor has another reward"
    assert found.zeros.pushed_down > 0.05, "what zeros would have done"
