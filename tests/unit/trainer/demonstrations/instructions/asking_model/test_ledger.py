"""The ledger of replies."""

from pathlib import Path

import pytest

from assay_shared.errors import DatasetError
from assay_trainer.demonstrations.instructions.asking_model.ledger import LedgerEntry, ReplyLedger


def test_a_reply_is_found_by_its_request_alone(tmp_path: Path) -> None:
    ReplyLedger(tmp_path).add(LedgerEntry(key="a", request="one", text="half \ud800"))
    found = ReplyLedger(tmp_path)
    entry = found.find("a", "one")
    assert entry is not None
    assert entry.text == "half \ud800"
    assert found.find("a", "another") is None
    assert [one.key for one in found.used] == ["a"]


def test_a_long_reply_is_stored_cut_with_its_length(tmp_path: Path) -> None:
    stored = ReplyLedger(tmp_path).add(LedgerEntry(key="a", request="one", text="x" * 2**20))
    assert (len(stored.text), stored.num_characters) == (65_536, 2**20)


def test_a_last_line_that_a_kill_cut_is_left_out(tmp_path: Path) -> None:
    ledger = ReplyLedger(tmp_path)
    ledger.add(LedgerEntry(key="a", request="one"))
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole + b'{"key": "b"')
    again = ReplyLedger(tmp_path)
    assert again.find("b", "") is None
    again.add(LedgerEntry(key="b", request="two"))
    assert ReplyLedger(tmp_path).find("b", "two") is not None
    ledger.path.write_bytes(b"{}\n" + whole)
    with pytest.raises(DatasetError, match=r"ledger\.jsonl:1"):
        ReplyLedger(tmp_path)
