"""The text of a sample as its tokens come: cut at a stop string, sent on as far as it is sure."""

from collections.abc import Callable

from assay_inference.tokenizer.tokenizer import PolicyTokenizer


class Detokenizer:
    """`text` is up to date after each `update`."""

    def __init__(self, stops: tuple[str, ...], min_tokens: int = 0) -> None:
        """Prepare a text; a stop string counts only after `min_tokens` tokens."""
        self._stops = stops
        self._min_tokens = min_tokens
        #: Characters of the first `min_tokens` tokens, once they are there.
        self._num_least: int | None = 0 if min_tokens == 0 else None
        self._num_sent = 0
        self.text = ""

    @property
    def is_shown(self) -> bool:
        """Return True if any text was streamed, and so cannot be taken back."""
        return self._num_sent > 0

    def update(
        self,
        vocabulary: PolicyTokenizer,
        token_ids: list[int],
        send: Callable[[str], None] | None,
        *,
        final: bool,
    ) -> bool:
        """Decode all ids again and `send` the new certain text; return True at a stop string."""
        text = vocabulary.decode(token_ids)
        found = self._stops_in(vocabulary, token_ids, text)
        self.text = text[: min(found)] if found else text
        if send is not None:
            added = self._added(whole=final or bool(found))
            if added:
                send(added)
        return bool(found)

    def _stops_in(self, vocabulary: PolicyTokenizer, token_ids: list[int], text: str) -> list[int]:
        """Return the first index of each stop string, which may begin within the minimum length."""
        if self._num_least is None:
            if len(token_ids) <= self._min_tokens:
                return []
            self._num_least = len(vocabulary.decode(token_ids[: self._min_tokens]))
        least = self._num_least
        places = [text.find(stop, max(0, least - len(stop) + 1)) for stop in self._stops]
        return [at for at in places if at >= 0]

    def _added(self, *, whole: bool) -> str:
        """Return the new certain text, without the start of a possible stop string or character."""
        sure = self.text
        if not whole:
            held = max((len(stop) - 1 for stop in self._stops), default=0)
            sure = sure[: len(sure) - held].rstrip("\N{REPLACEMENT CHARACTER}")
        added = sure[self._num_sent :]
        self._num_sent = max(self._num_sent, len(sure))
        return added
