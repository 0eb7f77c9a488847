"""Who looks on: a person at a terminal, a desktop with a browser, or nobody."""

import os
import sys
import threading
import webbrowser


def is_watched() -> bool:
    """Return True if a person is at the terminal: no pipe, no continuous integration."""
    return sys.stdin.isatty() and sys.stdout.isatty() and not os.environ.get("CI")


def has_desktop() -> bool:
    """Return True if a browser with a window can be opened."""
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def open_in_browser(link: str) -> None:
    """Open a link; a browser that hangs or is missing holds up nothing."""
    threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()
