"""A repair's control: independent answers for the tokens that its later rounds took.

Both sides have the first program in common, and both stop at an accepted one.
"""

from dataclasses import replace

from assay_shared.runtime.gather import gather
from assay_shared.types import Status
from assay_trainer.evaluate.playing.player import PlayUnit, UnitPlayer, lost_sample
from assay_trainer.evaluation.records.sample_record import RoundRecord, SampleRecord

#: Answers of a sample's control: a policy may say next to nothing each time.
_MOST = 64
#: Their places come after those of all samples, so that their seeds are others.
_FIRST = 1 << 20


async def play_repair(player: UnitPlayer, unit: PlayUnit) -> tuple[list[SampleRecord], str]:
    """Return the unit's samples, each with its control, and the scorer.

    A sample whose control has a failure has that failure: it is played again.
    """
    records, scorer = await player.play(unit)
    single = replace(player, protocol=player.protocol.of_single_answers)
    return list(await gather(_with_control(single, unit, one) for one in records)), scorer


async def _with_control(player: UnitPlayer, unit: PlayUnit, record: SampleRecord) -> SampleRecord:
    left = sum(one.num_tokens for one in record.rounds[1:])
    control: list[RoundRecord] = []
    while left > 0 and len(control) < _MOST:
        place = _FIRST + record.index * _MOST + len(control)
        most = min(unit.max_tokens, left)
        (answer,), _ = await player.play(PlayUnit(unit.task, unit.place, place, 1, most))
        if answer.outcome is None:
            return lost_sample(record.task_id, record.index, answer.failure)
        num_tokens = answer.num_tokens or 0
        control.append(
            RoundRecord(
                outcome=answer.outcome,
                pass_ratio=answer.pass_ratio,
                num_tokens=num_tokens,
                text=answer.text,
            )
        )
        if answer.outcome is Status.ACCEPTED:
            break
        left -= max(1, num_tokens)
    return record.model_copy(update={"control": tuple(control)})
