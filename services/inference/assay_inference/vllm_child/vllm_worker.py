"""Methods that vLLM's workers get beside their own (`--worker-extension-cls`).

Runs in vLLM's environment, where no other module of Assay is. The service imports `SamplePlan`,
so that both sides of the attestation look at the same entries.
"""

import hashlib
import random
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

_ROWS, _COLUMNS = 32, 8


class Piece(NamedTuple):
    """The part of a checkpoint's tensor that a worker holds."""

    first_row: int
    num_rows: int
    first_column: int
    num_columns: int


class SamplePlan(NamedTuple):
    """Which entries of one tensor are compared, in the coordinates of its piece."""

    rows: list[int]
    columns: list[int]

    @classmethod
    def of(cls, name: str, piece: Piece, seed: str) -> "SamplePlan":
        """Drawn anew for each `seed`: what one version's sample misses, another's meets."""
        drawn = random.Random(f"{seed}/{name}")
        rows = sorted(drawn.sample(range(piece.num_rows), min(_ROWS, piece.num_rows)))
        columns = sorted(drawn.sample(range(piece.num_columns), min(_COLUMNS, piece.num_columns)))
        return cls(rows, columns)


def digest_of(values: list[float]) -> str:
    """SHA-256 of numbers as float32; -0 counts as 0, since a sum of products loses its sign."""
    return hashlib.sha256(struct.pack(f"<{len(values)}f", *(v + 0.0 for v in values))).hexdigest()


class WorkerExtension:
    """Called through vLLM's collective RPC. Answers are dictionaries, which it passes as JSON."""

    def assay_alive(self) -> dict[str, Any]:
        """The engine's loop turns."""
        return {}

    def assay_prepare(self) -> dict[str, Any]:
        """Have log-probabilities taken at the sampling temperature, before top-p."""
        sampler = self.model_runner.sampler  # type: ignore[attr-defined]  # the worker's
        if not isinstance(sampler.topk_topp_sampler, _before_top_p()):
            sampler.topk_topp_sampler = _before_top_p()()
        dtype = str(self.model_runner.model_config.dtype)  # type: ignore[attr-defined]
        return {"dtype": dtype.removeprefix("torch.")}

    def assay_repack(self) -> dict[str, Any]:
        """Have kernels on the CPU take their own copy of each weight anew.

        vLLM's reload does so for layers that are in the checkpoint. A head tied to the embedding is
        not, and would go on to compute with the old weights.
        """
        model = self.model_runner.get_model()  # type: ignore[attr-defined]  # the worker's
        stale = [
            module
            for module in model.modules()
            if hasattr(module, "cpu_linear") and module.weight.numel() > 0
        ]
        for module in stale:
            module.quant_method.process_weights_after_loading(module)
        return {"num_repacked": len(stale)}

    def assay_digests(self, names: list[str], seed: str) -> dict[str, Any]:
        """Of each checkpoint tensor that is found here: its piece, and its sample's digests."""
        import torch

        model = self.model_runner.get_model()  # type: ignore[attr-defined]  # the worker's
        found = {}
        with torch.inference_mode():
            for name in names:
                part = _Part.find(model, name)
                if part is not None:
                    plan = SamplePlan.of(name, part.piece, seed)
                    found[name] = [part.piece, part.digests(model, plan)]
        return {"digests": found}


def _before_top_p() -> Any:
    """A class, made once: vLLM's sampler of temperature-scaled logits, with log-probabilities as
    they were before top-p. `processed_logprobs` alone would renormalise over what top-p leaves.
    On a GPU, requests with seeds are drawn for together."""
    global _BeforeTopP
    if _BeforeTopP is None:
        import torch
        from vllm.v1.sample.ops.topk_topp_sampler import TopKTopPSampler, apply_top_k_top_p

        class BeforeTopP(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = TopKTopPSampler("raw_logprobs")

            def forward(self, logits: Any, generators: Any, k: Any, p: Any) -> Any:
                logprobs = logits.log_softmax(dim=-1, dtype=torch.float32)
                if not generators or not logits.is_cuda:
                    return self.inner(logits, generators, k, p)[0], logprobs
                from seeded_noise import sample  # type: ignore[import-not-found]  # beside this file

                probs = apply_top_k_top_p(logits, k, p).softmax(dim=-1, dtype=torch.float32)
                return sample(probs, generators), logprobs

        _BeforeTopP = BeforeTopP
    return _BeforeTopP


_BeforeTopP: Any = None


class _Part:
    """A checkpoint's tensor inside the engine, where several may be fused into one module."""

    def __init__(self, module: Any, kind: str, offset: int, piece: Piece) -> None:
        self._module = module
        self._kind = kind
        self._offset = offset
        self.piece = piece

    @classmethod
    def find(cls, model: Any, name: str) -> "_Part | None":
        """None where this model keeps the tensor in a way that is not known here."""
        path, _, kind = name.rpartition(".")
        modules = dict(model.named_modules())
        for module_path, index in _places(model, path):
            module = modules.get(module_path)
            if module is not None and kind in ("weight", "bias"):
                return cls._within(module, kind, index)
        return None

    @classmethod
    def _within(cls, module: Any, kind: str, index: int) -> "_Part | None":
        sizes = getattr(module, "output_partition_sizes", None)
        tensor = getattr(module, kind, None)
        if tensor is None or tensor.ndim not in (1, 2):
            return None
        columns = tensor.shape[1] if tensor.ndim == 2 else 1
        shard = getattr(module, "shard_indices", None)
        if shard is not None:  # an embedding, whose rows are padded
            first = shard.org_vocab_start_index
            num_rows = min(shard.org_vocab_end_index, module.org_vocab_size) - first
            return cls(module, kind, 0, Piece(first, num_rows, 0, columns))
        if sizes is None:
            return cls(module, kind, 0, Piece(0, tensor.shape[0], 0, columns))
        rank = getattr(module, "tp_rank", 0)
        if index > 0:  # keys and values of fewer heads are on several workers
            rank //= getattr(module, "num_kv_head_replicas", 1)
        width = getattr(module, "input_size_per_partition", module.input_size)
        by_column = width < module.input_size
        first_row = 0 if by_column else rank * sizes[index]
        first_column = rank * width if by_column and kind == "weight" else 0
        columns = width if kind == "weight" else 1
        piece = Piece(first_row, sizes[index], first_column, columns)
        return cls(module, kind, sum(sizes[:index]), piece)

    def digests(self, model: Any, plan: SamplePlan) -> list[str]:
        """One of each copy that computes: kernels may have their own, and tied heads as well."""
        tensor = getattr(self._module, self._kind)
        digests = [] if tensor.numel() == 0 else [digest_of(self._read(tensor, plan))]
        if self._kind == "weight":
            modules = [self._module, *_tied(model, self._module)]
            packed = [m for m in modules if hasattr(m, "cpu_linear") or m.weight.numel() == 0]
            digests += [digest_of(self._by_unit_vectors(module, plan)) for module in packed]
        return digests

    def _read(self, tensor: Any, plan: SamplePlan) -> list[float]:
        """The planned entries, row by row."""
        sampled = tensor[[self._offset + row for row in plan.rows]]
        if tensor.ndim == 2:
            sampled = sampled[:, plan.columns]
        return [float(value) for value in sampled.float().flatten().tolist()]

    def _by_unit_vectors(self, module: Any, plan: SamplePlan) -> list[float]:
        """What `_read` gives, of a weight that a kernel keeps in a layout of its own."""
        import torch

        like = module.weight
        unit = torch.zeros(
            len(plan.columns), self.piece.num_columns, dtype=like.dtype, device=like.device
        )
        unit[range(len(plan.columns)), plan.columns] = 1
        return self._read(
            module.quant_method.apply(module, unit, None).T.contiguous(),
            SamplePlan(plan.rows, list(range(len(plan.columns)))),
        )


def _tied(model: Any, module: Any) -> list[Any]:
    """Other modules that compute with the same weight."""
    place = module.weight.data_ptr()
    if place == 0:
        return []
    return [
        other
        for other in model.modules()
        if other is not module
        and getattr(other, "weight", None) is not None
        and other.weight.data_ptr() == place
    ]


def _places(model: Any, path: str) -> Iterator[tuple[str, int]]:
    """Modules that may hold the tensor of `path`, and which of their fused parts it would be."""
    parent, _, leaf = path.rpartition(".")
    for fused, parts in getattr(model, "packed_modules_mapping", {}).items():
        if leaf in parts:
            yield (f"{parent}.{fused}" if parent else fused), parts.index(leaf)
    yield path, 0
