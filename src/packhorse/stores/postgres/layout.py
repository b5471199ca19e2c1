"""How a namespace is laid out: its names, its statements, and the steps that make its tables and functions."""

import hashlib

from packhorse.errors import InvalidName
from packhorse.stores.sql.migrate import Migration, migrations
from packhorse.stores.sql.statements import Statements, texts

_PACKAGE = "packhorse.stores.postgres"


class Layout:
    """The schema of a namespace. Tables come first, then each function as a step of its own, version in its name."""

    def __init__(self, namespace: str) -> None:
        if "$" in namespace or namespace.startswith("pg_"):
            raise InvalidName("namespace", namespace, "PostgreSQL has no such schemas: use letters, digits and _")
        self.namespace = namespace
        self.channel = f"packhorse:{namespace}"
        self.schema = _identifier(namespace)
        words = {
            "schema": self.schema,
            "channel": _literal(self.channel),
            "namespace": _literal(namespace),
            "arrival": _literal(f"{self.schema}.arrival"),
        }
        self.statements = Statements(_PACKAGE, **words)
        self.steps = migrations(_PACKAGE, **words) + _functions(words)

    def script(self, step: Migration) -> str:
        """A step as somebody would run it by hand."""
        note = self.statements.take.replace("$1", _literal(step.name)).replace("$2", _literal(step.checksum))
        return "\n".join((*((self.statements.layout,) if step is self.steps[0] else ()), step.sql.strip(), note))

    def vacuum(self, table: str) -> str:
        """The statement that cleans one table."""
        return self.statements.vacuum.replace("{table}", _identifier(table))


def _functions(words: dict[str, str]) -> tuple[Migration, ...]:
    plain, filled = texts(_PACKAGE, "functions"), texts(_PACKAGE, "functions", **words)
    return tuple(
        Migration(f"function:{name}", filled[name], hashlib.sha256(text.encode()).hexdigest()[:16])
        for name, text in plain.items()
    )


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
