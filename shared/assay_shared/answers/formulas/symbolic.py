"""Equality of formulas by math-verify, in processes with limits: sympy itself has none."""

from collections import OrderedDict
from copy import copy

from assay_shared.answers.formulas.size import why_too_large
from assay_shared.errors import AssayError, InvalidInput, TooHard
from assay_shared.runtime.single_flight import SingleFlight
from assay_shared.runtime.workers import Workers

_EQUAL = "assay_shared.answers.formulas.comparison:equal"
#: Modules for `Workers` to import before comparing formulas.
MODULES = ("assay_shared.answers.formulas.comparison",)
_KEPT = 2048
#: A plain formula: if even this comparison takes too long, the reference is too hard.
_PLAIN = "x+1"


class Symbolic:
    """A comparison of formulas, each pair once: the results of the newest pairs are cached."""

    def __init__(self, cpu_s: float, workers: Workers | None = None) -> None:
        """Limit each comparison to `cpu_s` of processor time. Without `workers`, start its own."""
        self._cpu_s = cpu_s
        self._workers = workers or Workers(MODULES)
        self._flights: SingleFlight[bool | TooHard | InvalidInput] = SingleFlight()
        self._kept: OrderedDict[tuple[str, str], bool | TooHard | InvalidInput] = OrderedDict()
        #: True if a reference is too hard for any answer; found out once per reference.
        self._blamed: OrderedDict[str, bool] = OrderedDict()

    async def equal(self, answer: str, reference: str) -> bool:
        """Return True if both have the same value.

        Raises:
            TooHard: the answer is too large to compare, or takes too long.
            InvalidInput: the reference is too large to compare, or takes too long.
            TimedOut, Overloaded: the machine has no processor time for the comparison.
            InternalFault: the comparison itself broke.
        """
        pair = (answer, reference)
        found = self._kept.get(pair)
        if found is None:
            found = await self._flights.run(pair, lambda: self._compare(*pair))
            self._kept[pair] = found
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        if isinstance(found, AssayError):
            raise copy(found)
        return found

    def close(self) -> None:
        """End the processes."""
        self._workers.close()

    async def _compare(self, answer: str, reference: str) -> bool | TooHard | InvalidInput:
        for text, name in ((reference, "reference"), (answer, "answer")):
            reason = why_too_large(text)
            if reason is not None:
                return _fault(name, reason)
        try:
            return await self._ask(answer, reference)
        except TooHard as error:
            to_blame = "reference" if await self._is_too_hard(reference) else "answer"
            return _fault(to_blame, str(error))

    async def _is_too_hard(self, reference: str) -> bool:
        """Return True if comparing even a plain formula takes too long: no answer is to blame."""
        if reference not in self._blamed:
            try:
                await self._ask(_PLAIN, reference)
                self._blamed[reference] = False
            except TooHard:
                self._blamed[reference] = True
            if len(self._blamed) > _KEPT:
                self._blamed.popitem(last=False)
        return self._blamed[reference]

    async def _ask(self, answer: str, reference: str) -> bool:
        return bool(await self._workers.call(_EQUAL, answer, reference, cpu_s=self._cpu_s))


def _fault(name: str, reason: str) -> TooHard | InvalidInput:
    if name == "answer":
        return TooHard(f"a formula that is too hard to compare: {reason}")
    return InvalidInput(f"too hard to compare with: {reason}", field="task.reference")
