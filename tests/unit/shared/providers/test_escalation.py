from assay_shared.providers.escalation import Attempt


def test_an_empty_reply_gets_more_tokens_and_less_reasoning_and_then_another_sample() -> None:
    step = Attempt(512, 0.0, 1, "high")
    seen = []
    for _ in range(5):
        step = step.with_more_tokens(2048)
        seen.append((step.max_tokens, step.effort, step.temperature))
    assert seen == [
        (1024, "medium", 0.0),
        (2048, "low", 0.0),
        (2048, "low", 0.7),
        (2048, "low", 0.7),
        (2048, "low", 0.7),
    ]


def test_no_two_steps_are_the_same_request() -> None:
    step = Attempt(512, 0.0, 1)
    steps = [step]
    for i in range(8):
        step = step.with_more_tokens(1024) if i % 2 else step.reseeded()
        steps.append(step)
    assert len(set(steps)) == len(steps)
