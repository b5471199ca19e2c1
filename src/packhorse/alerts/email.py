"""Alerts by e-mail, over SMTP."""

import asyncio
from typing import TYPE_CHECKING, Literal, get_args

from packhorse.alerts.alert import Alert
from packhorse.alerts.targets import Delivery, DeliveryAnswer
from packhorse.errors import DeliveryFailed, InvalidOption

if TYPE_CHECKING:
    from email.message import EmailMessage

SMTP_TIMEOUT_SECONDS = 15

Security = Literal["starttls", "tls", "plain"]


class Email:
    """Sends alerts by e-mail. ``security`` is ``starttls`` (the usual), ``tls`` from the first byte on, or ``plain``."""

    def __init__(
        self,
        *to: str,
        sender: str,
        host: str,
        port: int = 587,
        username: str | None = None,
        password: str | None = None,
        security: Security = "starttls",
        name: str = "email",
    ) -> None:
        for address in (sender, *to):
            if "@" not in address or not address.isprintable():
                raise InvalidOption("e-mail address", address, "give addresses such as ops@example.com")
        if not to:
            raise InvalidOption("to", to, "give at least one e-mail address")
        if security not in get_args(Security):
            raise InvalidOption("security", security, f"give one of {', '.join(get_args(Security))}")
        self.name = name
        self._to, self._sender, self._security = to, sender, security
        self._host, self._port, self._login = host, port, (username, password)

    def __repr__(self) -> str:
        return f"<Email {self.name}>"

    async def send(self, delivery: Delivery) -> DeliveryAnswer:
        """Send one message, in a thread."""
        message = email_of(delivery.alert, delivery.id)
        message["From"], message["To"] = self._sender, ", ".join(self._to)
        return await asyncio.to_thread(self._send, message)

    def _send(self, message: "EmailMessage") -> DeliveryAnswer:
        import smtplib
        import ssl

        context = ssl.create_default_context()
        try:
            connection = (
                smtplib.SMTP_SSL(self._host, self._port, timeout=SMTP_TIMEOUT_SECONDS, context=context)
                if self._security == "tls"
                else smtplib.SMTP(self._host, self._port, timeout=SMTP_TIMEOUT_SECONDS)
            )
            with connection:
                if self._security == "starttls":
                    connection.starttls(context=context)
                user, password = self._login
                if user is not None:
                    connection.login(user, password or "")
                refused = connection.send_message(message)
        except (OSError, smtplib.SMTPException) as error:
            raise DeliveryFailed(f"{self._host} did not take the e-mail: {error}") from error
        return DeliveryAnswer(f"refused for {', '.join(refused)}" if refused else "")


def email_of(alert: Alert, id: str) -> "EmailMessage":
    """Write an alert as an e-mail, without its addresses."""
    from email.message import EmailMessage  # slow to import, and few apps send e-mail

    message = EmailMessage()
    subject = f"[{alert.phase}] {alert.message}"
    message["Subject"] = "".join(char if char.isprintable() else " " for char in subject)[:200]
    message["X-Packhorse-Delivery"] = "".join(char for char in id if char.isprintable() and char.isascii())
    facts = {
        "Severity": alert.severity, "Rule": alert.rule, "Queue": alert.queue, "Task": alert.task, "Schedule": alert.schedule,
        "Cron": alert.cron, "Error": alert.error, "Attempts": alert.attempts, "Jobs": ", ".join(alert.job_ids) or None,
        "Fired": alert.fired_at, "Resolved": alert.resolved_at,
    }  # fmt: skip
    lines = [alert.message, "", *(f"{word}: {value}" for word, value in facts.items() if value is not None)]
    message.set_content("\n".join(lines) + "\n")
    return message
