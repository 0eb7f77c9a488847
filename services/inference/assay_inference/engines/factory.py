"""The engine named by the settings."""

from pathlib import Path

from assay_inference.engines.engine import Engine
from assay_inference.settings import InferenceSettings
from assay_shared.runtime.gpus import require_gpu


def check_engine(settings: InferenceSettings) -> None:
    """Check that the engine named by the settings can run here.

    Raises:
        ConfigError: it cannot.
        Conflict: it needs a GPU, and none is here.
    """
    if settings.needs_gpu and settings.inference_engine != "replicas":
        require_gpu()
    if settings.inference_engine == "replicas":
        from assay_inference.engines.replicas.discovery import AddressList

        AddressList.read(settings)
    if settings.inference_processes > 1:
        settings.check_processes()
    if settings.inference_engine == "vllm":
        from assay_inference.engines.vllm.process import check_version as check_vllm

        check_vllm(settings)
    elif settings.inference_engine == "sglang":
        from assay_inference.engines.sglang.process import check_version as check_sglang

        check_sglang(settings)


def check_model(settings: InferenceSettings, folder: Path) -> None:
    """Check that the engine named by the settings serves models of this kind.

    Raises:
        WeightsRefused: it does not.
    """
    if settings.inference_engine == "transformers":
        from assay_inference.engines.transformers.model import check_attention
        from assay_inference.weights.checkpoint import library_config

        check_attention(folder, library_config(folder))


def make_engine(settings: InferenceSettings) -> Engine:
    """Return the engine named by the settings; several processes or services act as an engine."""
    if settings.inference_engine == "replicas" or settings.inference_processes > 1:
        from assay_inference.engines.replicas.discovery import AddressList, LocalChildren
        from assay_inference.engines.replicas.engine import ReplicaEngine

        if settings.inference_engine == "replicas":
            return ReplicaEngine(settings, AddressList.read(settings))
        return ReplicaEngine(settings, LocalChildren(settings, make_engine))
    if settings.inference_engine == "vllm":
        from assay_inference.engines.child.engine import SupervisedEngine
        from assay_inference.engines.vllm.child import VllmReplica

        return SupervisedEngine(settings, VllmReplica)
    if settings.inference_engine == "sglang":
        from assay_inference.engines.child.engine import SupervisedEngine
        from assay_inference.engines.sglang.child import SglangReplica

        return SupervisedEngine(settings, SglangReplica)
    from assay_inference.engines.transformers.engine import TransformersEngine

    return TransformersEngine(settings)
