"""SandboxFusion's data sets: problems sent with a request, or stored in a folder of the server.

The folder has a JSON Lines file for each data set, called by its name (a prefix `code_eval_` does
not count). Memory only holds the place of each problem in its file.
"""

import asyncio
import json
from pathlib import Path
from string import Template
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field, JsonValue, TypeAdapter, ValidationError

from assay_shared.errors import InvalidInput, NotFound, SandboxFault

COMMON_OJ, AUTO_EVAL = "CommonOJDataset", "AutoEvalDataset"
_AUTO_EVAL_NAMES = (AUTO_EVAL, "AutoEvalV4Dataset", "AutoEvalV5Dataset", "AutoEvalV6Dataset")
_PREFIX, _SUFFIX = "code_eval_", ".jsonl"
_MAX_ROWS = 1000
_ASK = {
    "en": "Write a complete program in {language} that reads from standard input and writes to "
    "standard output.",
    "zh": "请用 {language} 写一个完整的程序：从标准输入读取，向标准输出打印结果。",
}

Row = dict[str, JsonValue]
_Problem = TypeVar("_Problem", bound=BaseModel)


class TestConfig(BaseModel):
    """The options for a data set. The documentation names the supported keys of `extra`."""

    dataset_type: str | None = None
    language: str | None = None
    locale: str | None = None
    is_fewshot: bool | None = None
    compile_timeout: float | None = Field(default=None, ge=0, le=300)
    run_timeout: float | None = Field(default=None, ge=0, le=300)
    custom_extract_logic: str | None = Field(default=None, max_length=100_000)
    provided_data: list[Row] | Row | None = None
    extra: dict[str, Any] = {}


class GetPromptsRequest(BaseModel):
    """POST /get_prompts and /list_ids."""

    dataset: str
    config: TestConfig
    offset: int = Field(default=0, ge=0)
    limit: int = Field(default=1_000_000, ge=0)


class GetPromptByIdRequest(BaseModel):
    """POST /get_prompt_by_id."""

    dataset: str
    config: TestConfig
    id: int | str


class DatasetPrompt(BaseModel):
    """The prompt of a problem for a model."""

    id: int | str
    prompt: str
    labels: dict[str, Any] = {}


class MetricsRequest(BaseModel):
    """POST /get_metrics and /get_metrics_function."""

    dataset: str
    config: TestConfig
    results: list[Any] = []


class MetricsFunction(BaseModel):
    """The metrics function of a data set: always null, since no data set here has its own."""

    function: None = None


class _ProblemText(BaseModel):
    """The parts of a problem for the model."""

    id: int | str
    content: str
    labels: dict[str, Any] = {}


def kind_of(config: TestConfig, row: Row) -> Literal["CommonOJDataset", "AutoEvalDataset"]:
    """Return a problem's way of judging: named by the request, or else by the problem's labels.

    Raises:
        InvalidInput: the request names a way not served here.
    """
    if config.dataset_type in _AUTO_EVAL_NAMES:
        return "AutoEvalDataset"
    if config.dataset_type == COMMON_OJ:
        return "CommonOJDataset"
    if config.dataset_type is not None:
        raise InvalidInput(
            f"{config.dataset_type!r} is not served",
            field="config.dataset_type",
            hint=f"known: {COMMON_OJ}, {AUTO_EVAL}",
        )
    labels = parse_json(row.get("labels") or {}, "labels")
    has_language = isinstance(labels, dict) and "programming_language" in labels
    return "AutoEvalDataset" if has_language else "CommonOJDataset"


def parse_json(value: JsonValue, field: str) -> JsonValue:
    """Return a value; parse it if it comes as JSON in a string.

    The string may have bare control characters in it.

    Raises:
        InvalidInput: the string is not JSON.
    """
    if not isinstance(value, str):
        return value
    try:
        found: JsonValue = json.loads(value, strict=False)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"it is not JSON: {error}"[:200], field=f"config.provided_data.{field}"
        ) from None
    return found


def read_as(model: type[_Problem], row: Row) -> _Problem:
    """Return a problem as `model`.

    Raises:
        InvalidInput: the row does not fit `model`.
    """
    try:
        return model.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(["config.provided_data", *map(str, first["loc"])])
        raise InvalidInput(first["msg"], field=field) from None


def to_prompt(row: Row, config: TestConfig) -> DatasetPrompt:
    """Return the prompt of a problem.

    Raises:
        InvalidInput: the problem lacks a field, or the examples asked for.
    """
    kind = kind_of(config, row)
    labels = parse_json(row.get("labels") or {}, "labels")
    problem = read_as(_ProblemText, row | {"labels": labels})
    if kind == COMMON_OJ:
        ask = _ASK.get(config.locale or "en", _ASK["en"])
        text = f"{problem.content}\n\n{ask.format(language=config.language or 'any language')}"
    else:
        text = _auto_eval_prompt(problem, config)
    return DatasetPrompt(id=problem.id, prompt=text, labels=problem.labels)


def _auto_eval_prompt(problem: _ProblemText, config: TestConfig) -> str:
    def part(name: str) -> str:
        return str(config.extra.get(name) or problem.labels.get(name) or "")

    fewshot = part("fewshot") if config.is_fewshot else ""
    if config.is_fewshot and not fewshot:
        raise InvalidInput(
            f"problem {problem.id} has no examples", field="config.is_fewshot", hint="send false"
        )
    template = part("prompt_template")
    if template:
        return Template(template).safe_substitute(
            question=problem.content,
            fewshot=fewshot,
            context=part("context"),
            locale=config.locale,
        )
    return "\n\n".join(text for text in (part("context"), fewshot, problem.content) if text)


class Datasets:
    """The data sets of a folder, and the problems sent with requests."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        #: By data set, the offset and length of each problem in its file, in the file's order.
        self._places: dict[str, dict[int | str, tuple[int, int]]] = {}
        self._reading = asyncio.Lock()

    def names(self) -> list[str]:
        """Return the names of the stored data sets, sorted."""
        return sorted(self._files())

    def _files(self) -> dict[str, Path]:
        if self._folder is None:
            return {}
        paths = sorted(self._folder.glob(f"*{_SUFFIX}"))
        return {path.stem.removeprefix(_PREFIX): path for path in paths}

    async def find(self, dataset: str, config: TestConfig, identifier: int | str) -> Row:
        """Return a problem.

        Raises:
            InvalidInput: there is no such data set, and the request has no single problem.
            NotFound: the data set has no such problem.
        """
        if isinstance(config.provided_data, dict):
            return config.provided_data
        if config.provided_data is not None:
            raise InvalidInput("must be a single problem", field="config.provided_data")
        file, places = await self._index(dataset)
        if identifier not in places:
            raise NotFound(f"{dataset} has no problem {identifier!r}")
        return (await asyncio.to_thread(_read, file, [places[identifier]]))[0]

    async def rows(self, request: GetPromptsRequest) -> list[Row]:
        """Return the requested problems; raises the errors of `find`."""
        given = request.config.provided_data
        if isinstance(given, dict):
            raise InvalidInput("must be a list of problems", field="config.provided_data")
        if given is not None:
            return given[: request.limit]
        file, places = await self._index(request.dataset)
        wanted = list(places.values())[request.offset :][: min(request.limit, _MAX_ROWS)]
        return await asyncio.to_thread(_read, file, wanted)

    async def ids(self, request: GetPromptsRequest) -> list[int | str]:
        """Return the ids of the requested problems; raises the errors of `find`."""
        if request.config.provided_data is not None:
            return [to_prompt(row, request.config).id for row in await self.rows(request)]
        _, places = await self._index(request.dataset)
        return list(places)[request.offset :][: request.limit]

    async def _index(self, dataset: str) -> tuple[Path, dict[int | str, tuple[int, int]]]:
        file = self._files().get(dataset)
        if file is None:
            raise InvalidInput(
                f"no data set {dataset!r} is stored here",
                field="config.provided_data",
                hint="send the problem with its tests",
            )
        async with self._reading:
            if dataset not in self._places:
                self._places[dataset] = await asyncio.to_thread(_find_places, file)
        return file, self._places[dataset]


_ROW: TypeAdapter[Row] = TypeAdapter(Row)


def _find_places(file: Path) -> dict[int | str, tuple[int, int]]:
    places: dict[int | str, tuple[int, int]] = {}
    start = 0
    with file.open("rb") as lines:
        for line in lines:
            identifier = _parse(line, file).get("id")
            if isinstance(identifier, int | str):
                places[identifier] = (start, len(line))
            start += len(line)
    return places


def _read(file: Path, places: list[tuple[int, int]]) -> list[Row]:
    rows = []
    with file.open("rb") as data:
        for start, length in places:
            data.seek(start)
            rows.append(_parse(data.read(length), file))
    return rows


def _parse(line: bytes, file: Path) -> Row:
    try:
        return _ROW.validate_json(line)
    except ValidationError:
        raise SandboxFault(f"{file.name} has a line that is not a JSON object") from None
