"""The thread that writes a state: each copy is new, and later changes do not reach it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.staging import DefaultStager
from torch.distributed.checkpoint.state_dict_loader import load

from assay_trainer.learner.ranks import Ranks
from assay_trainer.learner.writing.state_writer import StateWriter


def test_every_write_works_where_a_stager_copies_only_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = DefaultStager.stage

    def stage_once(self: DefaultStager, state: dict[str, Any], **options: Any) -> Any:
        staged = real(self, state, **options)
        self.close()  # as torch 2.11 does
        return staged

    monkeypatch.setattr(DefaultStager, "stage", stage_once)
    writer, weight = StateWriter(Ranks(on_gpu=False)), torch.zeros(3)
    state = {"weights": {"w": weight}, "size": torch.Size([3]), "step": 1}
    for number in range(3):
        weight.fill_(float(number))
        written = writer.begin(state, tmp_path / str(number))
        weight.fill_(-1.0)
        written.result()
    for number in range(3):
        found = {"weights": {"w": torch.empty(3)}}
        load(found, checkpoint_id=tmp_path / str(number), no_dist=True)
        assert found["weights"]["w"].tolist() == [float(number)] * 3
