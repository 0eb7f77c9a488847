"""The work of SandboxFusion's routes, a method for each route."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from assay_sandbox.formats.sandbox_fusion.autoeval import from_run, language_of, to_run
from assay_sandbox.formats.sandbox_fusion.datasets import (
    AUTO_EVAL,
    DatasetPrompt,
    Datasets,
    GetPromptByIdRequest,
    GetPromptsRequest,
    Row,
    kind_of,
    to_prompt,
)
from assay_sandbox.formats.sandbox_fusion.extract import extract, extract_by
from assay_sandbox.formats.sandbox_fusion.jupyter import (
    RunJupyterRequest,
    RunJupyterResponse,
    from_notebook,
    to_notebook,
)
from assay_sandbox.formats.sandbox_fusion.programs import (
    RunCodeRequest,
    RunCodeResponse,
    from_result,
    to_execution,
)
from assay_sandbox.formats.sandbox_fusion.submit import (
    SubmitRequest,
    SubmitResponse,
    check_language,
    from_judged,
    read_tests,
    to_test,
)
from assay_sandbox.sandbox import LocalSandbox
from assay_shared.errors import InvalidInput


class SandboxFusion:
    """SandboxFusion's routes over a sandbox, and the data sets of a folder."""

    def __init__(self, opened: Callable[[], LocalSandbox], datasets: Path | None) -> None:
        """Get the sandbox from `opened`; it is first called with the first request."""
        self._opened = opened
        self.datasets = Datasets(datasets)

    async def run_code(self, request: RunCodeRequest) -> RunCodeResponse:
        """Run a program once and return its result."""
        result = await self._opened().execute(to_execution(request))
        return from_result(result, request)

    async def run_jupyter(self, request: RunJupyterRequest) -> RunJupyterResponse:
        """Run the cells of a notebook and return their results."""
        result = await self._opened().execute(to_notebook(request))
        return await asyncio.to_thread(from_notebook, result, request)

    async def get_prompts(self, request: GetPromptsRequest) -> list[DatasetPrompt]:
        """Return the prompt of each problem."""
        return [to_prompt(row, request.config) for row in await self.datasets.rows(request)]

    async def get_prompt_by_id(self, request: GetPromptByIdRequest) -> DatasetPrompt:
        """Return the prompt of a problem."""
        row = await self.datasets.find(request.dataset, request.config, request.id)
        return to_prompt(row, request.config)

    async def submit(self, request: SubmitRequest) -> SubmitResponse:
        """Judge a completion by the tests of its problem and return the verdict."""
        row = await self.datasets.find(request.dataset, request.config, request.id)
        if kind_of(request.config, row) == AUTO_EVAL:
            return await self._try_with_tests(request, row)
        language = check_language(request.config)
        tests = read_tests(row)
        code = await self._extract(request, language)
        judged = await self._opened().judge_stdin(to_test(request, code, tests))
        return from_judged(request, code, tests, judged)

    async def _try_with_tests(self, request: SubmitRequest, row: Row) -> SubmitResponse:
        code = await self._extract(request, language_of(row))
        tried = to_run(request, row, code)
        try:
            response = await self.run_code(tried.run)
        except InvalidInput as error:
            field = {"language": "config.provided_data.labels.execution_language"}.get(
                error.field or "", error.field
            )
            raise InvalidInput(error.message, field=field, hint=error.hint) from None
        return from_run(request, tried, response)

    async def _extract(self, request: SubmitRequest, language: str) -> str:
        logic = request.config.custom_extract_logic
        if logic is not None:
            return await extract_by(logic, request.completion, language, self._opened().execute)
        return await asyncio.to_thread(extract, request.completion, language)
