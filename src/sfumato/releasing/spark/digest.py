"""A digest of kept columns, computed by Spark: SHA-256 of a spelling from which the values could be read back.

Two different rows must never share a digest, or they would share their noise. So every value is spelled as its length
in bytes, a colon and its text, and a missing one as a dash: whatever the values hold, the pieces can be told apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sfumato.errors import InputError

AS_TEXT = (
    "string", "char", "varchar", "boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "date",
    "timestamp_ntz",
)  # types whose text says the value exactly, wherever the session is


def digest(fields: dict[str, Any]) -> Any:
    """32 bytes for the columns of a frame, given as internal name → (its field in the source's schema)."""
    from pyspark.sql import functions as F

    parts = [spelled(F.col(name), field.dataType, field.name) for name, field in fields.items()]
    return F.unhex(F.sha2(F.concat(*parts), 256))


def spelled(value: Any, kind: Any, name: str) -> Any:
    """The piece of text that stands for one value of a type."""
    from pyspark.sql import functions as F

    text = _text(kind.typeName(), name)(value, kind, name)
    return F.coalesce(F.concat(F.octet_length(text).cast("string"), F.lit(":"), text), F.lit("-"))


def _text(kind: str, name: str) -> Callable[[Any, Any, str], Any]:
    if kind in AS_TEXT:
        return lambda value, _kind, _name: value.cast("string")
    if kind in SPECIAL:
        return SPECIAL[kind]
    raise InputError(
        f"column {name!r} of Spark type {kind} cannot be kept: its values have no spelling to tell rows apart by. "
        "Cast it to text first."
    )


def _timestamp(value: Any, kind: Any, name: str) -> Any:
    from pyspark.sql import functions as F

    return F.unix_micros(value).cast("string")  # its text would depend on the session's time zone


def _binary(value: Any, kind: Any, name: str) -> Any:
    from pyspark.sql import functions as F

    return F.hex(value)


def _array(value: Any, kind: Any, name: str) -> Any:
    from pyspark.sql import functions as F

    return F.array_join(F.transform(value, lambda x: spelled(x, kind.elementType, name)), "")


def _struct(value: Any, kind: Any, name: str) -> Any:
    from pyspark.sql import functions as F

    inner = [spelled(value.getField(f.name), f.dataType, name) for f in kind.fields]
    return F.when(value.isNotNull(), F.concat(F.lit(""), *inner))


def _map(value: Any, kind: Any, name: str) -> Any:
    from pyspark.sql import functions as F

    def pair(entry: Any) -> Any:
        return F.concat(
            spelled(entry.getField("key"), kind.keyType, name), spelled(entry.getField("value"), kind.valueType, name)
        )

    return F.array_join(F.transform(F.map_entries(value), pair), "")


def _nothing(value: Any, kind: Any, name: str) -> Any:
    from pyspark.sql import functions as F

    return F.lit(None).cast("string")


SPECIAL: dict[str, Callable[[Any, Any, str], Any]] = {
    "timestamp": _timestamp, "binary": _binary, "array": _array, "struct": _struct, "map": _map, "void": _nothing,
}
