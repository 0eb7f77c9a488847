"""Whether each of URLS answers 200 within two minutes."""

import os
import sys
import time
import urllib.error
import urllib.request

deadline = time.monotonic() + float(os.environ.get("WITHIN_S", "120"))


def problem(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return None
    except (urllib.error.URLError, OSError) as error:
        return f"{url}: {error}"


for url in os.environ["URLS"].split():
    while (found := problem(url)) and time.monotonic() < deadline:
        time.sleep(2)
    if found:
        sys.exit(found)
    print(f"{url}: ok")
