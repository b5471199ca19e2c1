"""A module whose import does not end."""

import threading

threading.Event().wait()
