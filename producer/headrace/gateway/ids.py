"""Token ids as JSON has them.

Knows what an id may be anywhere. Does not know vocabularies: the client checks against the model's.
"""

from typing import Annotated, TypeAlias

from msgspec import Meta

Id: TypeAlias = Annotated[int, Meta(ge=0, lt=2**32)]
Ids: TypeAlias = Annotated[list[Id], Meta(min_length=1)]
