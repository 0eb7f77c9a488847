"""The texts of an answer on their way to a client who reads them as they come."""

from assay_inference.engines.engine import OnText


class SentTexts:
    """Remembers if any text was streamed to the client."""

    def __init__(self, on_text: OnText | None) -> None:
        self.were_sent = False
        self._on_text = on_text

    @property
    def listener(self) -> OnText | None:
        return None if self._on_text is None else self._send

    def _send(self, index: int, text: str) -> None:
        self.were_sent = True
        if self._on_text is not None:
            self._on_text(index, text)
