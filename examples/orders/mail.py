"""Stands in for a mail provider: every e-mail comes with a key, and a key sends one e-mail, however often it comes."""

import sqlite3
from contextlib import closing
from pathlib import Path


class Mailbox:
    """A table of what was sent; its key is what makes a second sending harmless."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(self._connect()) as database:
            database.execute("create table if not exists mail (key text primary key, email text, words text)")

    def send(self, key: str, email: str, words: str) -> None:
        """Send an e-mail; with a key that was used before, do nothing."""
        with closing(self._connect()) as database, database:
            database.execute("insert into mail values (?, ?, ?) on conflict do nothing", (key, email, words))

    def sent(self) -> list[tuple[str, str]]:
        """Everything that was sent: to whom, and the words."""
        with closing(self._connect()) as database:
            return [(email, words) for email, words in database.execute("select email, words from mail order by rowid")]

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path)
