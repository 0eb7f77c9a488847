"""Fetches one revision of a repository into FOLDER, which is there whole or not at all.

Started again, it keeps the files that it has, and fetches a file that was cut off from its start.
After DEADLINE_S it is ended. Exit code 3: another try would end the same way.
"""

import hashlib
import json
import os
import signal
import sys
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError

_REFUSED = 3
_LATER = (408, 429)

signal.alarm(int(os.environ.get("DEADLINE_S", "0")))  # 0: no limit
folder = Path(os.environ["FOLDER"])
source = {name: os.environ[name.upper()] for name in ("repository", "revision")}
#: Next to the folder: a file in it would count as the model's.
note = folder.with_name(f".{folder.name}.source.json")
if folder.exists():
    held = json.loads(note.read_text()) if note.exists() else source
    if held != source:
        print(f"{folder} holds {held}, not {source}: choose another folder", file=sys.stderr)
        sys.exit(_REFUSED)
    print(f"{folder} is there already")
else:
    digest = hashlib.sha256(json.dumps(source).encode()).hexdigest()[:8]
    part = folder.with_name(f"{folder.name}.part-{digest}")
    part.mkdir(parents=True, exist_ok=True)
    for left in part.rglob("*.incomplete"):
        left.unlink()
    try:
        snapshot_download(
            source["repository"], revision=source["revision"], local_dir=part, max_workers=4
        )
    except HfHubHTTPError as error:
        status = error.response.status_code
        print(error, file=sys.stderr)
        sys.exit(_REFUSED if 400 <= status < 500 and status not in _LATER else 1)
    note.write_text(json.dumps(source))
    part.rename(folder)
    print(f"{folder} is there now")
