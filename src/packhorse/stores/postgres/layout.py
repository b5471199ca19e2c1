"""How a namespace is laid out: its names, its statements, and the steps that make its tables and functions."""

from packhorse.errors import InvalidName
from packhorse.stores.postgres import function_set
from packhorse.stores.postgres.function_set import FunctionSet
from packhorse.stores.sql.migrate import Migration, migrations
from packhorse.stores.sql.statements import Statements

_PACKAGE = "packhorse.stores.postgres"


class Layout:
    """The schema of a namespace. The steps for tables come first, then the one that installs the function set."""

    def __init__(self, namespace: str) -> None:
        if "$" in namespace or namespace.startswith("pg_"):
            raise InvalidName("namespace", namespace, "PostgreSQL has no such schemas: use letters, digits and _")
        self.namespace = namespace
        self.channel = f"packhorse:{namespace}"
        self.schema = _identifier(namespace)
        words = {
            "schema": self.schema,
            "set": function_set.prefix(self.schema),
            "set_number": str(function_set.NUMBER),
            "channel": _literal(self.channel),
            "namespace": _literal(namespace),
            "migrations": _literal(f"{self.schema}.migrations"),
            "arrival": _literal(f"{self.schema}.arrival"),
        }
        self.statements = Statements(_PACKAGE, **words)
        self.functions = FunctionSet(_PACKAGE, self.statements, words)
        self.steps = (*migrations(_PACKAGE, **words), self.functions.step)

    def script(self, step: Migration) -> str:
        """Answer a step as somebody would run it by hand."""
        note = self.statements.take.replace("$1", _literal(step.name)).replace("$2", _literal(step.checksum))
        note = note.replace("$3", str(step.compatible).lower())
        return "\n".join((*((self.statements.layout,) if step is self.steps[0] else ()), step.sql.strip(), note))

    def vacuum(self, table: str) -> str:
        """Answer the statement that vacuums one table."""
        return self.statements.vacuum.replace("{table}", _identifier(table))


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
