"""A link out of a checkpoint is refused, so no file of the machine is handed off by it."""

from pathlib import Path

import pytest

from assay_shared.errors import WeightsRefused
from assay_trainer.handoff.sources.links import refuse_links_out


@pytest.mark.parametrize(
    "name",
    ["chat_template.jinja", "notes.txt", "model.safetensors", "additional_chat_templates/a.jinja"],
)
def test_a_link_out_of_the_folder_is_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("secret")
    link = tmp_path / "model" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "secret")
    with pytest.raises(WeightsRefused, match=rf"{name} is a link to .*secret, outside"):
        refuse_links_out(tmp_path / "model")


def test_a_folder_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "additional_chat_templates").symlink_to(tmp_path / "templates")
    with pytest.raises(WeightsRefused, match="additional_chat_templates is a link"):
        refuse_links_out(tmp_path / "model")


def test_links_within_the_folder_and_of_the_hubs_cache_are_followed(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--a--b" / "snapshots" / "1234"
    blob = tmp_path / "models--a--b" / "blobs" / ("0a" * 20)
    for folder in (snapshot, blob.parent):
        folder.mkdir(parents=True)
    blob.write_text("{}")
    (snapshot / "config.json").symlink_to(f"../../blobs/{blob.name}")
    (snapshot / "tokenizer.json").symlink_to("config.json")
    (tmp_path / "alias").symlink_to(snapshot)
    refuse_links_out(tmp_path / "alias")


def test_a_blob_that_is_a_link_itself_is_refused(tmp_path: Path) -> None:
    snapshot, blob = tmp_path / "m/snapshots/1", tmp_path / "m/blobs" / ("0a" * 20)
    for folder in (snapshot, blob.parent):
        folder.mkdir(parents=True)
    blob.symlink_to("/etc/hostname")
    (snapshot / "config.json").symlink_to(f"../../blobs/{blob.name}")
    with pytest.raises(WeightsRefused, match=r"config\.json is a link"):
        refuse_links_out(snapshot)
