import signal

import pytest

from assay_shared.errors import CallerError
from assay_trainer.learner.given_rows.callbacks import Diverged, ProgressCallback
from assay_trainer.stop import Stop, Stopped


def test_a_signal_asks_and_the_next_check_obeys() -> None:
    old = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    stop = Stop()
    stop.check()
    try:
        stop.listen()
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, old[0])
        signal.signal(signal.SIGINT, old[1])
    with pytest.raises(Stopped, match="resume it"):
        stop.check()


@pytest.mark.parametrize("name", ["loss", "grad_norm"])
def test_a_loss_that_is_no_number_ends_the_run(name: str) -> None:
    seen: list[int] = []
    progress = ProgressCallback(lambda step, metrics: seen.append(step))
    state = type("State", (), {"global_step": 7})()
    arguments = (None, state, None)
    progress.on_log(*arguments, logs={"loss": 0.5, "grad_norm": 1.0})  # type: ignore[arg-type]
    progress.on_log(*arguments, logs={"train_runtime": 3.0})  # type: ignore[arg-type]
    assert seen == [7]
    with pytest.raises(Diverged, match=f"{name} is nan at step 7") as ended:
        progress.on_log(*arguments, logs={"loss": 0.5, "grad_norm": 1.0, name: float("nan")})  # type: ignore[arg-type]
    assert isinstance(ended.value, CallerError), "an ablation continues without this arm"
    assert "learning_rate" in str(ended.value)
