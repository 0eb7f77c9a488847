"""Keys and values of tokens read earlier, by their prefix.

Shapes: H heads, T tokens, D head width.
"""

from collections import OrderedDict
from collections.abc import Sequence

import torch

#: Tokens that are kept or dropped together.
BLOCK_TOKENS = 16
#: Of each layer: keys and values, (H, T, D).
Columns = list[tuple[torch.Tensor, torch.Tensor]]


class Block:
    """A run of tokens after the tokens of `parent`; the same run elsewhere is another block."""

    def __init__(
        self, parent: "Block | None", token_ids: tuple[int, ...], columns: Columns
    ) -> None:
        self.parent = parent
        self.token_ids = token_ids
        self.columns = columns
        self.children: dict[tuple[int, ...], Block] = {}
        self.num_bytes = sum(keys.nbytes + values.nbytes for keys, values in columns)


class PrefixCache:
    """A tree of blocks under a version of the weights; the least recently used blocks go first."""

    def __init__(self) -> None:
        self._roots: dict[tuple[int, ...], Block] = {}
        # A block stands after all that follow it, so that the first has none that follow it.
        self._by_use: OrderedDict[int, Block] = OrderedDict()
        self.num_bytes = 0

    def find(self, token_ids: Sequence[int]) -> list[Block]:
        """Return the blocks at the beginning of the ids; the last id is never in them."""
        found: list[Block] = []
        children = self._roots
        for start in range(0, len(token_ids) - BLOCK_TOKENS, BLOCK_TOKENS):
            block = children.get(tuple(token_ids[start : start + BLOCK_TOKENS]))
            if block is None:
                break
            found.append(block)
            children = block.children
        self._touch(found)
        return found

    def insert(self, token_ids: Sequence[int], columns: Columns, max_bytes: int) -> None:
        """Keep whole blocks of the ids' columns, within `max_bytes` in total."""
        path: list[Block] = []
        children = self._roots
        for start in range(0, len(token_ids) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
            ids = tuple(token_ids[start : start + BLOCK_TOKENS])
            block = children.get(ids)
            if block is None:
                copied = _copied(columns, start)
                block = Block(path[-1] if path else None, ids, copied)
                if not self._make_room(block.num_bytes, path, max_bytes):
                    break
                children[ids] = block
                self._by_use[id(block)] = block
                self.num_bytes += block.num_bytes
            path.append(block)
            children = block.children
        self._touch(path)

    def shrink(self, max_bytes: int) -> None:
        """Drop the least recently used blocks until the rest takes at most `max_bytes`."""
        while self.num_bytes > max(0, max_bytes):
            self._drop_oldest()

    def clear(self) -> None:
        self._roots.clear()
        self._by_use.clear()
        self.num_bytes = 0

    def _make_room(self, num_bytes: int, path: list[Block], max_bytes: int) -> bool:
        """Drop older blocks outside the path; return True if `num_bytes` more fit then."""
        if self.num_bytes + num_bytes > max_bytes:
            self._touch(path)
        while self.num_bytes + num_bytes > max_bytes:
            oldest = next(iter(self._by_use.values()), None)
            if oldest is None or oldest in path:
                return False
            self._drop_oldest()
        return True

    def _drop_oldest(self) -> None:
        _, block = self._by_use.popitem(last=False)
        siblings = self._roots if block.parent is None else block.parent.children
        del siblings[block.token_ids]
        self.num_bytes -= block.num_bytes

    def _touch(self, path: list[Block]) -> None:
        for block in reversed(path):
            self._by_use.move_to_end(id(block))


def columns_of(blocks: Sequence[Block]) -> Columns:
    """Return the blocks' columns in order."""
    return [
        (torch.cat([keys for keys, _ in layer], 1), torch.cat([values for _, values in layer], 1))
        for layer in zip(*(block.columns for block in blocks), strict=True)
    ]


def _copied(columns: Columns, start: int) -> Columns:
    """Return copies of the columns of the block beginning at `start`."""
    place = slice(start, start + BLOCK_TOKENS)
    return [(keys[:, place].clone(), values[:, place].clone()) for keys, values in columns]
