"""A real browser for tests: chromium without a window, spoken to over a pipe by its DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe", "--hide-scrollbars")
_PIPES = 'exec "$@" 3<&"$COMMANDS" 4>&"$ANSWERS"'  # chromium reads commands from 3 and answers on 4
_PATIENCE = 300.0  # seconds


class Browser:
    """One page of its own: `open` it, `evaluate` expressions in it, `wait` for them; `complaints` is what its console got."""

    def __init__(self, profile: Path, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        self.complaints: list[str] = []
        self._answers: dict[int, dict[str, Any]] = {}
        self._sent = 0
        self._rest = b""
        self._session: str | None = None
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()
        self._process = subprocess.Popen(
            ["bash", "-c", _PIPES, "chromium", str(CHROMIUM), *_OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            env=os.environ | {"COMMANDS": str(commands), "ANSWERS": str(answers)},
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        page = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self.show(width, height, scheme)

    def show(self, width: int, height: int, scheme: str) -> None:
        """As on a screen of this size, light or dark."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url: str) -> None:
        """Go to a page."""
        self._call("Page.navigate", url=url)
        self.wait("location.href !== 'about:blank' && document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, expression: str) -> Any:
        """The value of an expression as soon as it is true."""
        end = time.monotonic() + _PATIENCE
        while not (found := self.evaluate(expression)):
            assert time.monotonic() < end, f"{expression} did not become true; the page says: {self.evaluate('document.body.innerText')}"
            time.sleep(0.05)
        return found

    def picture(self, file: Path) -> None:
        """The whole page as a PNG."""
        shot = self._call("Page.captureScreenshot", captureBeyondViewport=True, **{"format": "png"})
        file.write_bytes(base64.b64decode(shot["data"]))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters} | ({"sessionId": self._session} if self._session else {})
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while self._sent not in self._answers:
            self._read()
        answer = self._answers.pop(self._sent)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def _read(self) -> None:
        got = os.read(self._from, 1 << 20)
        assert got, "the browser has ended"
        *messages, self._rest = (self._rest + got).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers[message["id"]] = message
            elif message["method"] == "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(message["params"]["exceptionDetails"]))
            elif message["method"] == "Runtime.consoleAPICalled" and message["params"]["type"] in ("error", "warning", "assert"):
                self.complaints.append(json.dumps(message["params"]["args"]))
            elif message["method"] == "Log.entryAdded" and message["params"]["entry"]["level"] in ("error", "warning"):
                self.complaints.append(message["params"]["entry"]["text"])

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._to)
        os.close(self._from)
        self._process.terminate()
        self._process.wait(30)
