"""Targets that are reached over HTTP: webhooks, Slack, and an outside monitor."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from packhorse.alerts.address_guard import guard
from packhorse.alerts.http_client import HttpClient
from packhorse.alerts.signature import keys, signature_headers
from packhorse.alerts.targets import Delivery, DeliveryAnswer
from packhorse.errors import DeliveryFailed
from packhorse.model.duration import Duration, micros

KEPT_BYTES: Final = 1024  # of an answer
MIN_HEARTBEAT_US: Final = 10_000_000
_JSON: Final = {"Content-Type": "application/json"}


class _HttpTarget:
    """What targets with an address have in common. The address may hold a secret, so it is not shown."""

    usual_name = "http"

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        allow: Sequence[str] = (),
        ports: Sequence[int] = (),
        http: bool = False,
        ca_file: str | None = None,
    ) -> None:
        judged = guard(allow, ports, http=http)
        self.name = name or f"{self.usual_name}:{judged.endpoint(url).host}"[:100]
        self.client = HttpClient(judged, ca_file=ca_file)
        self._url = url

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    async def _send(self, method: str, headers: Mapping[str, str], body: bytes) -> DeliveryAnswer:
        response = await self.client.send(method, self._url, headers, body)
        text = response.body[:KEPT_BYTES].decode(errors="replace").replace("\0", "")
        if 200 <= response.status < 300:
            return DeliveryAnswer(text, response.status)
        raise DeliveryFailed(
            f"{self.name} answered {response.status}: {text}",
            status=response.status,
            headers=response.headers,
        )


class Webhook(_HttpTarget):
    """Posts alerts as JSON, signed as Standard Webhooks describes it if there is a secret.

    Only public addresses over https on port 443 are called. ``allow`` lists networks that may be called besides
    (``["10.2.0.0/16"]``), ``ports`` other ports, ``http=True`` allows plain http, ``ca_file`` names the certificates of a
    private authority. Of several secrets each makes a signature, so that one can be replaced by another.
    """

    usual_name = "webhook"

    def __init__(
        self,
        url: str,
        *,
        secret: str | Sequence[str] | None = None,
        name: str | None = None,
        allow: Sequence[str] = (),
        ports: Sequence[int] = (),
        http: bool = False,
        ca_file: str | None = None,
    ) -> None:
        super().__init__(url, name=name, allow=allow, ports=ports, http=http, ca_file=ca_file)
        self._keys = () if secret is None else keys(secret)

    async def send(self, delivery: Delivery) -> DeliveryAnswer:
        """Post the alert."""
        signed = signature_headers(self._keys, delivery.id, delivery.at // 1_000_000, delivery.body)
        return await self._send("POST", {**_JSON, **signed}, delivery.body)


class SlackWebhook(_HttpTarget):
    """Posts alerts as text to an incoming webhook of Slack, or of a service that understands the same (Mattermost, Rocket.Chat)."""

    usual_name = "slack"

    async def send(self, delivery: Delivery) -> DeliveryAnswer:
        """Post the message."""
        alert = delivery.alert
        lines = [f"*{alert.phase}* ({alert.severity}) {_plain(alert.message)}"]
        lines += [f"> {_plain(alert.error)}"] if alert.error else []
        lines += [f"Jobs: {', '.join(alert.job_ids)}"] if alert.job_ids else []
        return await self._send("POST", _JSON, msgspec.json.encode({"text": "\n".join(lines)}))


class Heartbeat(_HttpTarget):
    """Calls an outside monitor every so often while the fleet is well; the monitor tells you when the calls stop.

    Well means: every queue with jobs to run has a worker, and no alert of severity ``critical`` fires.
    """

    usual_name = "heartbeat"

    def __init__(
        self,
        url: str,
        *,
        every: Duration = "1m",
        name: str | None = None,
        allow: Sequence[str] = (),
        ports: Sequence[int] = (),
        http: bool = False,
        ca_file: str | None = None,
    ) -> None:
        super().__init__(url, name=name, allow=allow, ports=ports, http=http, ca_file=ca_file)
        self.every = micros(every, "every", low=MIN_HEARTBEAT_US)

    async def send(self, delivery: Delivery) -> DeliveryAnswer:  # noqa: ARG002 - a monitor only wants the call
        """Call the monitor."""
        return await self._send("GET", {}, b"")


def _plain(text: str) -> str:
    """Text as Slack takes it: its three special characters escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
