"""What every part of a scenario is made of: immutable structs that know their keys, and the ranges of common values."""

from typing import Annotated

from msgspec import Meta, Struct

Name = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
PoolName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*$", max_length=32)]
LayerName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*$", max_length=32)]
ModelName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$", max_length=128)]
"""As it stands in requests and on command lines, where comma and semicolon separate."""
Seconds = Annotated[float, Meta(ge=0, le=3600)]
PositiveSeconds = Annotated[float, Meta(gt=0, le=3600)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
PositiveCount = Annotated[int, Meta(ge=1, le=100_000)]
Share = Annotated[float, Meta(ge=0, le=1)]
Status = Annotated[int, Meta(ge=400, le=599)]


class Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parts are immutable, and a key they do not know is an error, never a silent no-op."""
