"""What happens when an e-mail fails for good: a ticket for each letter, and one alert for each cause."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from packhorse import AnyDead, App, DeadLetter


class Tickets:
    """The tickets of the support; a letter opens one ticket, however often its handler runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(self._connect()) as database:
            database.execute("create table if not exists tickets (letter text primary key, email text, words text)")

    def open(self, letter: str, email: str, words: str) -> None:
        """Open a ticket, unless this letter has one."""
        with closing(self._connect()) as database, database:
            database.execute("insert into tickets values (?, ?, ?) on conflict do nothing", (letter, email, words))

    def all(self) -> list[tuple[str, str]]:
        """Whom the tickets are about, and what they say."""
        with closing(self._connect()) as database:
            return [(email, words) for email, words in database.execute("select email, words from tickets")]

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path)


def support(app: App, tickets: Tickets, target: Any) -> None:
    """Open a ticket for each confirmation that died, and send alerts about them to a target."""

    @app.dead_letters("email", name="open-ticket")
    def open_ticket(letter: DeadLetter) -> None:
        arguments = letter.arguments or {}
        # A job that was replayed and died again is another letter: its moment makes it another ticket.
        key = f"{letter.job_id} {letter.died_at.isoformat()}"
        tickets.open(key, str(arguments.get("email")), f"{letter.task}: {letter.error_message}")

    app.alerts(to=[target], rules=[AnyDead("email")])
