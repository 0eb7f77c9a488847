"""Sampling with a stream of texts."""

import asyncio
from collections.abc import AsyncGenerator

from assay_inference.serving.generate import Generation
from assay_shared.types import Completion, SamplingParams

#: Sample index and text, or all samples.
Part = tuple[int, str] | list[Completion]


async def draw_parts(
    front: Generation, prompt: list[int], sampling: SamplingParams
) -> AsyncGenerator[Part, None]:
    """Yield sample index and text as texts are sampled, then all samples.

    Closing the generator early cancels the sampling.

    Raises:
        AssayError: as `Generation.generate`.
    """
    texts: asyncio.Queue[tuple[int, str] | None] = asyncio.Queue()
    drawing = asyncio.ensure_future(
        front.generate(prompt, sampling, lambda index, text: texts.put_nowait((index, text)))
    )
    drawing.add_done_callback(lambda _: texts.put_nowait(None))
    try:
        while (item := await texts.get()) is not None:
            yield item
        yield await drawing
    finally:
        drawing.cancel()
