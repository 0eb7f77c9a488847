"""Types that the checker gives to names, and how they meet where two paths join."""

from collections.abc import Mapping
from dataclasses import dataclass

from assay_reward.workflows.language.signatures import ValueType


@dataclass(frozen=True, slots=True)
class RecordType:
    """A record: its fields with their types, sorted by name."""

    fields: tuple[tuple[str, ValueType], ...]

    def field(self, name: str) -> ValueType | None:
        """Return a field's type, or None if there is no such field."""
        return dict(self.fields).get(name)

    def __str__(self) -> str:
        return f"a record ({', '.join(name for name, _ in self.fields)})"


@dataclass(frozen=True, slots=True)
class MixedType:
    """Different types on different paths; such a value cannot be used."""

    def __str__(self) -> str:
        return "of different types on different paths"


#: None: unknown, because a problem was found already.
Type = ValueType | RecordType | MixedType | None
MIXED = MixedType()


def record_of(fields: Mapping[str, ValueType]) -> RecordType:
    """Return the record with these fields."""
    return RecordType(tuple(sorted(fields.items())))


def joined(first: Type, second: Type) -> Type:
    """Return the type that holds on both paths: of two records, the fields they share."""
    if first == second:
        return first
    if first is None or second is None:
        return None
    if isinstance(first, RecordType) and isinstance(second, RecordType):
        shared = dict(first.fields).items() & dict(second.fields).items()
        return record_of(dict(shared)) if shared else MIXED
    return MIXED


Names = dict[str, Type]


def joined_names(first: Names | None, second: Names | None) -> Names | None:
    """Return the types after two paths join; None is a path that nothing reaches."""
    if first is None or second is None:
        return second if first is None else first
    names = {**first, **second}
    return {
        name: joined(first[name], second[name]) if name in first and name in second else kind
        for name, kind in names.items()
    }
