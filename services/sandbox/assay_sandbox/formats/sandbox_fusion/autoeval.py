"""SandboxFusion's `AutoEvalDataset`: runs a completion and its test code as a single program."""

import json
import secrets
from typing import Any

from pydantic import BaseModel, Field

from assay_sandbox.formats.sandbox_fusion.datasets import Row, parse_json, read_as
from assay_sandbox.formats.sandbox_fusion.extract import find_blocks
from assay_sandbox.formats.sandbox_fusion.programs import RunCodeRequest, RunCodeResponse
from assay_sandbox.formats.sandbox_fusion.submit import JudgedTest, SubmitRequest, SubmitResponse
from assay_sandbox.languages.jvm import java_names
from assay_sandbox.languages.test_runners import JEST_REPORT
from assay_shared.errors import InvalidInput
from assay_shared.types import MAX_FILES, FileContent

_INSERT = "#<INSERT>"
_RUN_TIMEOUT_S, _COMPILE_TIMEOUT_S = 20.0, 40.0
#: Starts of a program's own entry point: the tests do not need the code from there on.
_ENTRANCES = {"python": 'if __name__ == "__main__":', "cpp": "int main()"}
_EXAMPLE = "# Example usage"
_MAX_REPORT_BYTES = 2**22


class _Labels(BaseModel):
    programming_language: str
    execution_language: str | None = None


class _Test(BaseModel):
    code: str
    asset: dict[str, FileContent | None] = Field(default={}, max_length=MAX_FILES)


class _Problem(BaseModel):
    labels: _Labels
    test: _Test


class AutoEvalRun(BaseModel):
    """A program joined with its tests. A non-empty `flag` must appear in its output."""

    code: str
    full_code: str
    run: RunCodeRequest
    flag: str = ""


def to_run(request: SubmitRequest, row: Row, code: str) -> AutoEvalRun:
    """Return the program to test `code`, the code extracted from the completion.

    Raises:
        InvalidInput: the problem lacks a field, or the completion has too many blocks.
    """
    problem = _read(row)
    language = problem.labels.programming_language
    runs_in = problem.labels.execution_language or language
    files = dict(problem.test.asset)
    if language == "java":
        return _to_junit(request, problem)
    code = _without_entrance(code, language)
    if language == "html" and _INSERT not in problem.test.code:
        files["index.html"] = code.encode()
        full_code = problem.test.code
    else:
        full_code = _join(
            code, problem.test.code, as_text=bool(request.config.extra.get("repr_code"))
        )
    flag = ""
    if request.config.extra.get("append_flag") and runs_in == "python":
        flag = secrets.token_hex(10)
    ending = f'\n\nprint("{flag}")' if flag else ""
    run = _run(request, full_code + ending, runs_in, files)
    if runs_in == "jest":
        run.fetch_files = [JEST_REPORT]
    return AutoEvalRun(code=code, full_code=full_code + ending, run=run, flag=flag)


def language_of(row: Row) -> str:
    """Return the language of the completion; raises InvalidInput if the problem lacks a field."""
    return _read(row).labels.programming_language


def _read(row: Row) -> _Problem:
    labels = parse_json(row.get("labels") or {}, "labels")
    test = parse_json(row.get("test") or {}, "test")
    if isinstance(test, dict) and "asset" in test:
        test = test | {"asset": parse_json(test["asset"], "test.asset") or {}}
    return read_as(_Problem, row | {"labels": labels, "test": test})


def _run(
    request: SubmitRequest, code: str, language: str, files: dict[str, bytes | None]
) -> RunCodeRequest:
    config = request.config
    return RunCodeRequest(
        code=code,
        language=language,
        compile_timeout=config.compile_timeout or _COMPILE_TIMEOUT_S,
        run_timeout=config.run_timeout or _RUN_TIMEOUT_S,
        files=files,
    )


def _to_junit(request: SubmitRequest, problem: _Problem) -> AutoEvalRun:
    """Return a JUnit run: each block of Java is a file, and so is the test."""
    blocks = [block.code for block in find_blocks(request.completion, "java")]
    texts = {java_names(text)[0]: text for text in (*blocks, problem.test.code)}
    if len(texts) > MAX_FILES:
        raise InvalidInput(f"it has more than {MAX_FILES} blocks", field="completion")
    files = problem.test.asset | {name: text.encode() for name, text in texts.items()}
    run = _run(request, "", "junit", files)
    full_code = "\n\n".join(f"// {name}\n\n{text}" for name, text in texts.items())
    return AutoEvalRun(code="\n\n".join(blocks), full_code=full_code, run=run)


def _without_entrance(code: str, language: str) -> str:
    if language == "go":
        code = code.replace("package main", "")
    for mark in (_ENTRANCES.get(language), _EXAMPLE):
        if mark and mark in code:
            code = code[: code.index(mark)].strip()
    return code


def _join(code: str, test: str, *, as_text: bool) -> str:
    if _INSERT in test:
        before, _, after = test.partition(_INSERT)
        return before + (repr(code) if as_text else code) + after
    code = code.partition("if __name__ ==")[0]
    return (repr(code) if as_text else code) + "\n" + test


def from_run(
    request: SubmitRequest, tried: AutoEvalRun, response: RunCodeResponse
) -> SubmitResponse:
    """Return the verdict in SandboxFusion's format."""
    stdout = (response.run_result and response.run_result.stdout) or ""
    accepted = response.status == "Success" and tried.flag in stdout
    return SubmitResponse(
        id=request.id,
        accepted=accepted,
        extracted_code=tried.code,
        full_code=tried.full_code,
        tests=[JudgedTest(passed=accepted, exec_info=response)],
        extra=_jest_cases(response.files.get(JEST_REPORT)),
    )


def _jest_cases(report: bytes | None) -> dict[str, Any]:
    """Return jest's result for each test; empty if its report is missing or unreadable."""
    if report is None or len(report) > _MAX_REPORT_BYTES:
        return {}
    try:
        found = json.loads(report)
        cases = [
            {
                "passed": case["status"] == "passed",
                "full_name": case["fullName"],
                "file": file["name"],
                "suite": " > ".join(case["ancestorTitles"]),
                "test": case["title"],
                "failure_messages": case["failureMessages"],
            }
            for file in found["testResults"]
            for case in file["assertionResults"]
        ]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {"jest_cases": cases}
