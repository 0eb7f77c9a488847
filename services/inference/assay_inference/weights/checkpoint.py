"""A checkpoint's files, tensors and vocabulary, for an engine in another process."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_inference.weights.config_sizes import check_layout, read_config
from assay_inference.weights.safetensors import Tensor, check_same_layout, read_layout
from assay_shared.errors import AssayError, WeightsRefused
from assay_shared.types import DirectWeights, LogprobProbe, PolicyVersion

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_HINT = "an engine takes new weights of the model that it was started with"
#: Entries of config.json without influence on the network's computation.
_PASSING = {
    *("_name_or_path", "transformers_version", "dtype", "torch_dtype"),
    *("use_cache", "output_router_logits"),
}
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "generation_config.json",
)


@dataclass(frozen=True)
class WorkerPlace:
    """The place of an engine's workers in a direct transfer that reaches several engines.

    Its workers are a row among all `num_workers`, from number `first` on.
    """

    first: int
    num_workers: int
    #: Called as soon as the engine's part has failed; its recovery may take long after that.
    on_failure: Callable[[AssayError], None]


@dataclass(frozen=True)
class Checkpoint:
    """An opened version; its weights are not in the engine yet.

    For weights from a trainer's memory (`direct`), `folder` is the folder of the last version with
    a folder: everything but the weights is unchanged since then.
    """

    folder: Path
    policy: PolicyVersion
    probe: LogprobProbe | None
    layout: dict[str, Tensor]
    config: dict[str, object]
    tokenizer_files: dict[str, bytes]
    vocabulary: PolicyTokenizer
    direct: DirectWeights | None = None
    #: None where the engine is the only one.
    place: WorkerPlace | None = None

    @classmethod
    def open(
        cls,
        folder: Path,
        policy: PolicyVersion,
        probe: LogprobProbe | None,
        served: "Checkpoint | None",
    ) -> "Checkpoint":
        """Read everything but the weights; reuse the vocabulary of `served`, if any.

        Raises:
            WeightsRefused: files are missing or broken, or the model differs from `served`.
        """
        layout = read_layout(folder)
        check_layout(folder, layout)
        config = read_config(folder / "config.json")
        _size(folder, config, "max_position_embeddings")
        files = {
            name: (folder / name).read_bytes()
            for name in _TOKENIZER_FILES
            if (folder / name).is_file()
        }
        if served is not None:
            check_same_layout(served.layout, layout)
            _check_same_config(served, config)
            vocabulary = served.vocabulary
            if files != served.tokenizer_files:
                _check_same_vocabulary(vocabulary, _vocabulary(folder, config))
        else:
            vocabulary = _vocabulary(folder, config)
        return cls(folder, policy, probe, layout, config, files, vocabulary)

    def with_weights(
        self,
        source: DirectWeights,
        policy: PolicyVersion,
        probe: LogprobProbe | None,
        place: WorkerPlace | None = None,
    ) -> "Checkpoint":
        """Return a copy with other weights of the same model, from the trainer's memory."""
        return replace(self, direct=source, policy=policy, probe=probe, place=place)

    def within(self, max_length: int) -> "Checkpoint":
        """Return a copy with a context of at most `max_length`, the engine's."""
        length = min(self.vocabulary.max_length, max_length)
        return replace(self, vocabulary=replace(self.vocabulary, max_length=length))

    @property
    def dtype(self) -> str:
        """The weights' type in config.json, or "auto"."""
        return str(self.config.get("dtype") or self.config.get("torch_dtype") or "auto")


def _check_same_config(served: Checkpoint, config: dict[str, object]) -> None:
    for key in sorted((served.config.keys() | config.keys()) - _PASSING):
        before, after = served.config.get(key), config.get(key)
        if before != after:
            raise WeightsRefused(
                f"config.json has {key} {after!r:.200}, not {before!r:.200}", hint=_HINT
            )


def _check_same_vocabulary(served: PolicyTokenizer, new: PolicyTokenizer) -> None:
    """Compare the vocabularies' behaviour: loading and saving a tokenizer changes its files."""
    for what, before, after in (
        ("tokenizer", served.rules, new.rules),
        ("chat template", served.tokenizer.chat_template, new.tokenizer.chat_template),
        ("set of end tokens", served.end_ids, new.end_ids),
    ):
        if before != after:
            raise WeightsRefused(
                f"another {what} than that of the version that is served", hint=_HINT
            )


def _vocabulary(folder: Path, config: dict[str, object]) -> PolicyTokenizer:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WeightsRefused(f"{folder} has no tokenizer that can be read: {error}") from error
    generation = folder / "generation_config.json"
    end = (read_config(generation) if generation.is_file() else config).get("eos_token_id")
    ends = end if isinstance(end, list) else [end]
    vocabulary = PolicyTokenizer(
        tokenizer=tokenizer,
        size=_size(folder, config, "vocab_size"),
        end_ids=frozenset({*ends, tokenizer.eos_token_id} - {None}),
        max_length=_size(folder, config, "max_position_embeddings"),
    )
    vocabulary.check_usable(folder)
    return vocabulary


def _size(folder: Path, config: dict[str, object], key: str) -> int:
    """Return a size in config.json; raise WeightsRefused unless it is a positive number.

    Some architectures have another name for it, which the library knows.
    """
    size = config.get(key)
    if key not in config:
        size = getattr(library_config(folder).get_text_config(), key, None)
    if not isinstance(size, int) or size < 1:
        raise WeightsRefused(f"{folder}/config.json has no positive {key}")
    return size


def library_config(folder: Path) -> "PreTrainedConfig":
    """Return config.json as the library reads it.

    Raises:
        WeightsRefused: it is of no model that the library knows.
    """
    from transformers import AutoConfig

    try:
        found: PreTrainedConfig = AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WeightsRefused(f"{folder} has a config.json of no known model: {error}") from error
    return found
