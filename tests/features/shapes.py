"""Types for arguments and results. They stand at the top of a module, as annotations need them to."""

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pydantic


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Order:
    id: UUID
    total: Decimal
    lines: list[Line]
    note: str | None = None
    tags: set[str] = field(default_factory=set)


class Address(TypedDict, total=False):
    street: str
    number: int


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    x: float
    y: float


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    name: str


class Person(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=0)
    born: date | None = None


class Team(msgspec.Struct):
    lead: Person
    others: list[Person] = []


Format = Literal["csv", "pdf"]
Pair = tuple[int, str]
Span = tuple[datetime, timedelta]

ORDER = Order(UUID(int=7), Decimal("19.90"), [Line("a"), Line("b", 3)], None, {"new"})
