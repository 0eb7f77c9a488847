"""Memory of engine and trainer on the GPUs, and the trained weights."""

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from assay_shared.errors import ConfigError
from assay_trainer.config import LoRAConfig
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.pipeline.plan_stages import grpo_stage
from assay_trainer.start.cards import GIB, CardSet
from assay_trainer.start.sized_model import SizedModel

_PACKS = (16_384, 8192, 4096, 2048)
#: Of CUDA, libraries and an allocator's rest, apart from the estimate.
_OVERHEAD = int(1.5 * GIB)
#: Of an engine's process apart from weights, keys and values.
_ENGINE_OVERHEAD = 3 * GIB
#: Sequences sampled together by an engine, at the least and better.
_FEW_SEQUENCES, _SEQUENCES = 8, 64
_ALONE, _LEAST_SHARED, _MOST_SHARED = 0.9, 0.2, 0.6
_MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True)
class TrainerSize:
    """The trained weights, with their memory of a card in bytes."""

    lora: LoRAConfig | None
    tokens_per_pack: int
    num_cards: int
    needed: int
    available: int

    @property
    def told(self) -> str:
        """Return the trained weights in words."""
        what = "all weights" if self.lora is None else f"a LoRA adapter of rank {self.lora.rank}"
        if self.lora is not None and self.lora.nf4:
            what += " over a base in 4 bits"
        cards = f", {self.num_cards} GPUs" if self.num_cards > 1 else ""
        return f"{what}{cards}, grpo.tokens_per_pack {self.tokens_per_pack}"


@dataclass(frozen=True)
class GpuLayout:
    """The GPUs of engine and trainer. Without GPUs, both share the processors."""

    trainer: TrainerSize
    trainer_gpus: tuple[int, ...] = ()
    engine_gpus: tuple[int, ...] = ()
    tensor_parallel: int = 1
    #: vLLM's share of a card's memory.
    utilisation: float = 0.0
    max_model_len: int = 0

    @property
    def engine_processes(self) -> int:
        """Return the number of engines, each with the whole model."""
        return max(1, len(self.engine_gpus) // self.tensor_parallel)

    @property
    def vllm_arguments(self) -> str:
        """Return vLLM's options for this layout."""
        told = f"--gpu-memory-utilization {self.utilisation:g} --max-model-len {self.max_model_len}"
        if self.tensor_parallel > 1:
            told += f" --tensor-parallel-size {self.tensor_parallel}"
        return told


def plan_layout(
    model: SizedModel, cards: CardSet, max_tokens: int, lora: bool | None, *, one_trainer: bool
) -> GpuLayout:
    """Return a fitting layout.

    Args:
        max_tokens: of an answer.
        lora: True trains an adapter, False all weights, None chooses.
        one_trainer: whether the trainer can use one GPU alone, as in docker-compose.yml.

    Raises:
        ConfigError: the GPUs, or this machine's memory, are too small; says what would fit.
    """
    length = min(model.context, max(1024, 2 * max_tokens + 1024))
    if not cards.number:
        trainer = _fitting(model, lora, 1, _machine_bytes(), on_gpu=False)
        if trainer is None:
            raise _too_small(model, lora, _machine_bytes(), cards)
        return GpuLayout(trainer, max_model_len=length)
    engine = _engine_bytes(model, length)
    if cards.number == 1:
        return _shared(model, cards, lora, engine, length)
    return _apart(model, cards, lora, engine, length, one_trainer)


def _shared(
    model: SizedModel, cards: CardSet, lora: bool | None, engine: int, length: int
) -> GpuLayout:
    """Return engine and trainer on one GPU: first with room for many sequences, then for few."""
    few = _engine_bytes(model, length, _FEW_SEQUENCES)
    for wanted in (engine, few):
        share = min(_MOST_SHARED, max(_LEAST_SHARED, _up(wanted / cards.memory)))
        left = int((0.97 - share) * cards.memory) - _OVERHEAD
        trainer = _fitting(model, lora, 1, left, on_gpu=True)
        if trainer is not None and few <= share * cards.memory:
            return GpuLayout(trainer, (0,), (0,), 1, share, length)
    left = max(0, int(0.97 * cards.memory) - few - _OVERHEAD)
    raise _too_small(model, lora, left, cards, few)


def _apart(
    model: SizedModel,
    cards: CardSet,
    lora: bool | None,
    engine: int,
    length: int,
    one_trainer: bool,
) -> GpuLayout:
    """Return engines on the first GPUs, and the trainer on the others."""
    left = int(0.97 * cards.memory) - _OVERHEAD
    options = [1] if one_trainer else [n for n in (1, 2, 4, 8) if 2 * n <= cards.number]
    found = [one for n in options if (one := _fitting(model, lora, n, left, on_gpu=True))]
    found.sort(key=lambda one: (one.lora is not None, one.num_cards))
    for trainer in found:
        num_engine = cards.number - trainer.num_cards
        parallel = _parallel(model, cards, num_engine, length)
        if parallel is not None:
            gpus = range(num_engine - num_engine % parallel)
            trainers = range(num_engine, cards.number)
            return GpuLayout(trainer, tuple(trainers), tuple(gpus), parallel, _ALONE, length)
    raise _too_small(model, lora, left, cards, _engine_bytes(model, length, _FEW_SEQUENCES))


def _parallel(model: SizedModel, cards: CardSet, num_engine: int, length: int) -> int | None:
    """Return over how many GPUs an engine lays the model; None if it fits on none."""
    for parallel in (1, 2, 4, 8):
        if parallel > num_engine:
            return None
        needed = _engine_bytes(model, length, _FEW_SEQUENCES, parallel)
        if needed <= _ALONE * cards.memory:
            return parallel
    return None


def _engine_bytes(
    model: SizedModel, length: int, sequences: int = _SEQUENCES, parallel: int = 1
) -> int:
    """Return the bytes of an engine on each of its cards: weights in 16 bits, keys and values."""
    cache = sequences * length * model.cache_bytes_per_token
    return (2 * model.num_weights + cache) // parallel + _ENGINE_OVERHEAD


def _up(share: float) -> float:
    """Return a share rounded up to a twentieth."""
    return -(-int(share * 100) // 5) * 5 / 100


def _choices(lora: bool | None) -> Iterator[LoRAConfig | None]:
    if lora is not True:
        yield None
    if lora is not False:
        yield LoRAConfig()
        if importlib.util.find_spec("bitsandbytes") is not None:
            yield LoRAConfig(nf4=True)


def _fitting(
    model: SizedModel, lora: bool | None, num_cards: int, available: int, *, on_gpu: bool
) -> TrainerSize | None:
    """Return the first choice that fits: all weights before an adapter, long packs first."""
    for choice in _choices(lora):
        if choice is not None and choice.nf4 and not on_gpu:
            continue
        for pack in _PACKS if on_gpu else _PACKS[1:]:
            needed = needed_bytes(model, choice, pack, num_cards, on_gpu=on_gpu)
            if needed <= available:
                return TrainerSize(choice, pack, num_cards, needed, available)
    return None


def needed_bytes(
    model: SizedModel, lora: LoRAConfig | None, pack: int, num_cards: int, *, on_gpu: bool
) -> int:
    """Return the bytes of GRPO on the fullest card, by the estimate of `assay train --plan`."""
    grpo = GRPOConfig(steps=1, tokens_per_pack=pack)
    return grpo_stage(grpo, lora, model.model, num_cards, on_gpu=on_gpu).estimate.total


def _machine_bytes() -> int:
    if not _MEMINFO.exists():
        return 2**63
    fields = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines() if ":" in line)
    return int(fields["MemAvailable"].split()[0]) * 1024


def _too_small(
    model: SizedModel, lora: bool | None, left: int, cards: CardSet, engine: int = 0
) -> ConfigError:
    on_gpu = cards.number > 0
    wanted = LoRAConfig() if lora else None
    least = needed_bytes(model, wanted, _PACKS[-1], 1, on_gpu=on_gpu)
    where = f"a GPU of {cards.memory / GIB:.0f} GiB" if on_gpu else "this machine"
    beside = f", with {engine / GIB:.1f} GiB for an engine" if engine else ""
    what = "an adapter" if lora else "all weights"
    return ConfigError(
        f"{where} is too small for {model.name} ({model.size_told} weights): "
        f"training {what} needs {least / GIB:.1f} GiB with {_PACKS[-1]} tokens a pack, and "
        f"{max(0, left) / GIB:.1f} GiB are left{beside}",
        field="--gpus" if on_gpu else "--model",
        hint="; ".join(_ways_out(model, lora, left, cards, engine)),
    )


def _ways_out(
    model: SizedModel, lora: bool | None, left: int, cards: CardSet, engine: int
) -> Iterator[str]:
    """Yield fitting changes, or the least need of each."""
    on_gpu, pack = cards.number > 0, _PACKS[-1]
    ways = {"--lora": LoRAConfig()} if lora is not True else {}
    if on_gpu:
        ways["policy.lora.nf4 (pip install 'assay-rl[nf4]')"] = LoRAConfig(nf4=True)
    needs = {name: needed_bytes(model, one, pack, 1, on_gpu=on_gpu) for name, one in ways.items()}
    for name, needed in needs.items():
        fits = "fits" if needed <= left else "needs"
        yield f"{name} {fits} {'in ' if fits == 'fits' else ''}{needed / GIB:.1f} GiB"
    for num_cards in (2, 4, 8) if on_gpu and lora is not True else ():
        needed = needed_bytes(model, None, pack, num_cards, on_gpu=True)
        if needed <= 0.97 * cards.memory - _OVERHEAD:
            yield f"all weights fit on {num_cards} GPUs for training ({needed / GIB:.1f} GiB each)"
            break
    if on_gpu and engine > _ALONE * cards.memory:
        parts = next((n for n in (2, 4, 8, 16) if engine / n <= _ALONE * cards.memory), 32)
        yield f"an engine needs {parts} GPUs (--tensor-parallel-size {parts})"
    yield "or a smaller model"
