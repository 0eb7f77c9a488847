from assay_judge.escalation import Step


def test_an_empty_reply_gets_more_tokens_and_less_reasoning_and_then_another_sample() -> None:
    step = Step(512, 0.0, 1, "high")
    seen = []
    for _ in range(5):
        step = step.more_room(2048)
        seen.append((step.max_tokens, step.effort, step.temperature))
    assert seen == [
        (1024, "medium", 0.0),
        (2048, "low", 0.0),
        (2048, "low", 0.7),
        (2048, "low", 0.7),
        (2048, "low", 0.7),
    ]


def test_no_two_steps_are_the_same_request() -> None:
    step = Step(512, 0.0, 1)
    steps = [step]
    for i in range(8):
        step = step.more_room(1024) if i % 2 else step.reseeded()
        steps.append(step)
    assert len(set(steps)) == len(steps)
