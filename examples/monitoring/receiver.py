"""Receives the alerts: ``python -m examples.monitoring.receiver`` listens on port 8900 of this machine."""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from packhorse import Alert, verify_webhook
from packhorse.errors import InvalidSignature

PORT = 8900
MAX_BYTES = 1 << 20


class AlertReceiver(BaseHTTPRequestHandler):
    """Takes alerts whose signature is right, each once, and prints them."""

    server: "AlertServer"

    def do_POST(self) -> None:
        """Check and take one alert."""
        size = int(self.headers.get("Content-Length", 0))
        if size > MAX_BYTES:
            self.send_error(413)
            return
        try:
            alert = verify_webhook(self.rfile.read(size), dict(self.headers), self.server.secret)
        except InvalidSignature as error:
            self.send_error(401, str(error))
            return
        self.server.take(self.headers["webhook-id"], alert)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print alerts only."""


class AlertServer(ThreadingHTTPServer):
    """The receiver, and what it has taken."""

    def __init__(self, secret: str, port: int = PORT) -> None:
        super().__init__(("127.0.0.1", port), AlertReceiver)
        self.secret = secret
        self.taken: dict[str, Alert] = {}

    def take(self, delivery: str, alert: Alert) -> None:
        """Keep an alert; one that comes again, because its answer was lost, changes nothing."""
        if self.taken.setdefault(delivery, alert) is alert:
            print(f"{alert.phase} ({alert.severity}): {alert.message}", flush=True)


if __name__ == "__main__":
    with AlertServer(os.environ["ALERT_SECRET"]) as server:
        server.serve_forever()
