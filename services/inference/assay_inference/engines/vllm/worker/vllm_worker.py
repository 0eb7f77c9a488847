"""Additional methods of vLLM's workers (`--worker-extension-cls`).

Runs in vLLM's environment, without Assay except the package `weight_transfer`. The service samples
with the same module, so both sides of the attestation read the same entries.
"""

import time
from collections.abc import Iterator
from typing import Any

from weight_transfer.sample import Piece, SamplePlan, digest_of


class WorkerExtension:
    """Called through vLLM's collective RPC. Answers are dictionaries, passed as JSON."""

    def assay_alive(self) -> dict[str, Any]:
        """Return at once: an answer shows that the engine's loop runs."""
        return {}

    def assay_prepare(self) -> dict[str, Any]:
        """Have log-probabilities taken at the sampling temperature, before min-p, top-k, top-p."""
        from before_filters import install  # type: ignore[import-not-found]  # in the same folder
        from vllm.v1.sample.logits_processor.builtin import MinPLogitsProcessor
        from vllm.v1.sample.ops.topk_topp_sampler import TopKTopPSampler, apply_top_k_top_p

        sampler = self.model_runner.sampler  # type: ignore[attr-defined]  # the worker's
        install(sampler, TopKTopPSampler("raw_logprobs"), apply_top_k_top_p, MinPLogitsProcessor)
        dtype = str(self.model_runner.model_config.dtype)  # type: ignore[attr-defined]
        return {"dtype": dtype.removeprefix("torch."), "device": self._assay_uuid()}

    def _assay_uuid(self) -> str:
        import torch

        device: torch.device = self.device  # type: ignore[attr-defined]  # the worker's
        if device.type != "cuda":
            return device.type
        return str(torch.cuda.get_device_properties(device).uuid)

    def assay_repack(self) -> dict[str, Any]:
        """Have CPU kernels copy each weight again.

        vLLM's reload does so for layers in the checkpoint. A head tied to the embedding is not in
        the checkpoint, and would keep computing with the old weights.
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
        """Return the piece and the sample's digests of each checkpoint tensor found here."""
        import torch

        model = self.model_runner.get_model()  # type: ignore[attr-defined]  # the worker's
        found = {}
        with torch.inference_mode():
            for name, part in _Part.find_all(model, names).items():
                plan = SamplePlan.of(name, part.piece, seed)
                found[name] = [part.piece, part.digests(model, plan)]
        return {"digests": found}

    def assay_fingerprints(self, names: list[str]) -> dict[str, Any]:
        """Return the piece and the full fingerprint of each checkpoint tensor stored here
        unchanged. `sampled` names tensors with a kernel's own layout.
        """
        from weight_transfer.fingerprint import as_text, fingerprints

        started = time.perf_counter()
        model = self.model_runner.get_model()  # type: ignore[attr-defined]  # the worker's
        parts = _Part.find_all(model, names)
        read = {name: (part.piece, part.entries()) for name, part in parts.items()}
        kept = {name: pair for name, pair in read.items() if pair[1] is not None}
        values = fingerprints((e, p.first_row, p.first_column) for p, e in kept.values())
        found = {
            name: [piece, as_text(value)]
            for (name, (piece, _)), value in zip(kept.items(), values, strict=True)
        }
        sampled = [name for name, part in parts.items() if part.packed(model)]
        took_s = time.perf_counter() - started
        return {"fingerprints": found, "sampled": sampled, "took_s": took_s}

    def assay_read(self, folder: str, stored: list[list[Any]]) -> dict[str, Any]:
        """Load a folder's tensors; `stored` gives the place of each. Several threads copy into the
        parameters if possible; otherwise vLLM reloads.
        """
        model = self.model_runner.get_model()  # type: ignore[attr-defined]  # the worker's
        in_place = _loads_in_place(model)
        if not in_place:
            self.reload_weights(weights_path=folder)  # type: ignore[attr-defined]  # the worker's
            return {"in_place": in_place}
        from reading import StoredTensor, read  # type: ignore[import-not-found]  # in the same folder

        device = self.device  # type: ignore[attr-defined]  # the worker's
        _load(self, model, read([StoredTensor(*one) for one in stored], device), in_place=in_place)
        return {"in_place": in_place}

    def assay_receive(self, source: dict[str, Any], seed: str, limit_s: float) -> dict[str, Any]:
        """Fetch all tensors from the trainer and load them.

        An error is in `failure`: then the engine holds a mixture, or, with `is_hung`, only the end
        of the process stops the transfer. `samples` are of the received tensors with a kernel's own
        layout.
        """
        from weight_transfer.limit import Limit, TransferFailed

        try:
            return self._assay_receive(source, seed, Limit(limit_s))
        except TransferFailed as error:
            return {"failure": str(error), "is_hung": error.is_hung}

    def _assay_receive(self, source: dict[str, Any], seed: str, limit: Any) -> dict[str, Any]:
        from weight_transfer.manifest import ManifestEntry, plan_buckets

        model = self.model_runner.get_model()  # type: ignore[attr-defined]  # the worker's
        entries = [
            ManifestEntry(name, tuple(shape), *rest) for name, shape, *rest in source["entries"]
        ]
        parts = _Part.find_all(model, [entry.name for entry in entries])
        packed = {name: part for name, part in parts.items() if part.packed(model)}
        arriving = _Arriving(packed, seed)
        in_place = _loads_in_place(model)
        receiver = self._assay_receiver(source)
        buckets = plan_buckets(entries, source["bucket_bytes"])
        number, keep = source["announcement"], not in_place
        try:
            tensors = arriving.of(receiver.receive(number, buckets, limit, keep=keep))
            _load(self, model, tensors, in_place=in_place)
        except BaseException:
            receiver.close()
            self.assay_met = None
            raise
        seconds = {"transfer_s": arriving.waited_s, "load_s": arriving.loaded_s}
        return {"samples": arriving.samples, "in_place": in_place, **seconds}

    def assay_end_reload(self) -> dict[str, Any]:
        """Give layers without parameters after a broken reload their old parameters."""
        from vllm.config import set_current_vllm_config
        from vllm.model_executor.model_loader import reload

        model = self.model_runner.get_model()  # type: ignore[attr-defined]  # the worker's
        for layer in model.modules():
            unfinished = reload.layerwise.get_layerwise_info(layer)
            unfinished.loaded_weights, unfinished.load_numel = [], 0
        with set_current_vllm_config(self.vllm_config):  # type: ignore[attr-defined]  # the worker's
            reload.finalize_layerwise_reload(model, self.model_config)  # type: ignore[attr-defined]
        return {}

    def _assay_receiver(self, source: dict[str, Any]) -> Any:
        """Return the present receiver if this is the same meeting, else a new receiver."""
        from weight_transfer.meeting import Meeting
        from weight_transfer.receiving import Receiver

        meeting = Meeting(*source["meeting"])
        rank, device = self.rank, self.device  # type: ignore[attr-defined]  # the worker's
        # The trainer has rank 0, and workers of other processes may come before these.
        place = source["first_worker"] + rank + 1, source["num_workers"] + 1
        kept = getattr(self, "assay_met", None)
        if kept is not None and (kept.meeting, kept.place) == (meeting, place):
            return kept
        if kept is not None:
            kept.close()
        self.assay_met = Receiver(source["transport"], meeting, *place, device)
        return self.assay_met


class _Arriving:
    """Tensors on their way from the transfer into the model."""

    def __init__(self, packed: "dict[str, _Part]", seed: str) -> None:
        self._packed = packed
        self._seed = seed
        self.samples: dict[str, list[Any]] = {}
        self.waited_s = 0.0
        self.loaded_s = 0.0

    def of(self, received: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        asked_at = time.perf_counter()
        for name, tensor in received:
            part = self._packed.get(name)
            if part is not None:
                self.samples[name] = [part.piece, part.sample_of(name, tensor, self._seed)]
            given_at = time.perf_counter()
            self.waited_s += given_at - asked_at
            yield name, tensor
            asked_at = time.perf_counter()
            self.loaded_s += asked_at - given_at


def _loads_in_place(model: Any) -> bool:
    """Return True if each parameter is exactly its loaded tensor: no kernel changed it.

    Then the model's own loader copies into the parameters without extra memory. Otherwise vLLM's
    reload processes each layer, and the proof after the load checks this decision.
    """
    plain = {"UnquantizedLinearMethod", "UnquantizedEmbeddingMethod"}
    for module in model.modules():
        method = getattr(module, "quant_method", None)
        if method is not None and type(method).__name__ not in plain:
            return False
        if hasattr(module, "cpu_linear") or type(module).__name__ == "MLAAttention":
            return False
    return all(parameter.is_cuda for parameter in model.parameters())


def _load(worker: Any, model: Any, tensors: Iterator[tuple[str, Any]], *, in_place: bool) -> None:
    import torch

    if in_place:
        with torch.no_grad():
            model.load_weights(tensors)
        return torch.cuda.synchronize()
    try:
        worker.reload_weights(weights_iterator=tensors)
    except BaseException:
        worker.assay_end_reload()
        raise


class _Part:
    """A checkpoint's tensor inside the engine; several may be fused into a module."""

    def __init__(self, module: Any, kind: str, offset: int, piece: Piece) -> None:
        self._module = module
        self._kind = kind
        self._offset = offset
        self.piece = piece

    @classmethod
    def find_all(cls, model: Any, names: list[str]) -> "dict[str, _Part]":
        """Return the parts found; tensors with an unknown layout are left out."""
        modules = dict(model.named_modules())
        found = {name: cls._find(model, modules, name) for name in names}
        return {name: part for name, part in found.items() if part is not None}

    @classmethod
    def _find(cls, model: Any, modules: dict[str, Any], name: str) -> "_Part | None":
        path, _, kind = name.rpartition(".")
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
        """Return the digest of each computing copy: kernels and tied heads may have their own."""
        tensor = getattr(self._module, self._kind)
        digests = [] if tensor.numel() == 0 else [digest_of(self._read(tensor, plan))]
        packed = self.packed(model)
        digests += [digest_of(self._by_unit_vectors(module, plan)) for module in packed]
        return digests

    def packed(self, model: Any) -> list[Any]:
        """Return the modules with a kernel's own copy of this tensor."""
        if self._kind != "weight" or self._module.weight.is_cuda:
            return []
        modules = [self._module, *_tied(model, self._module)]
        return [m for m in modules if hasattr(m, "cpu_linear") or m.weight.numel() == 0]

    def entries(self) -> Any:
        """Return all of this worker's part as stored; None if only a kernel's own copy is left."""
        tensor = getattr(self._module, self._kind)
        if tensor.numel() == 0:
            return None
        return tensor[self._offset : self._offset + self.piece.num_rows]

    def sample_of(self, name: str, tensor: Any, seed: str) -> str:
        """Return the digest expected from `digests`, computed from a whole checkpoint tensor."""
        plan = SamplePlan.of(name, self.piece, seed)
        sampled = tensor[[self.piece.first_row + row for row in plan.rows]]
        if tensor.ndim == 2:
            sampled = sampled[:, [self.piece.first_column + column for column in plan.columns]]
        digest: str = digest_of([float(value) for value in sampled.float().flatten().tolist()])
        return digest

    def _read(self, tensor: Any, plan: SamplePlan) -> list[float]:
        """Return the planned entries, row by row."""
        sampled = tensor[[self._offset + row for row in plan.rows]]
        if tensor.ndim == 2:
            sampled = sampled[:, plan.columns]
        return [float(value) for value in sampled.float().flatten().tolist()]

    def _by_unit_vectors(self, module: Any, plan: SamplePlan) -> list[float]:
        """Return the values `_read` gives, for a weight in a kernel's own layout."""
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
    """Return the other modules computing with the same weight."""
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
    """Yield the modules possibly holding the tensor of `path`, and the name of the fused part."""
    parent, _, leaf = path.rpartition(".")
    for fused, parts in getattr(model, "packed_modules_mapping", {}).items():
        if leaf in parts:
            yield (f"{parent}.{fused}" if parent else fused), parts.index(leaf)
    yield path, 0
