"""Fetches one revision of a repository into a folder, which is there whole or not at all."""

import os
from pathlib import Path

from huggingface_hub import snapshot_download

folder = Path(os.environ["FOLDER"])
if folder.exists():
    print(f"{folder} is there already")
else:
    part = folder.with_name(folder.name + ".part")
    snapshot_download(
        os.environ["REPOSITORY"], revision=os.environ["REVISION"], local_dir=part, max_workers=4
    )
    part.rename(folder)
    print(f"{folder} is there now")
