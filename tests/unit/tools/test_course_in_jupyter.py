"""The notebooks of the course in a real Jupyter server: every relative link and picture is served, in each place where it is opened."""

from __future__ import annotations

import os
import posixpath
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

import nbformat
import pytest

from minispark_stream.tools.cli import main
from minispark_stream.tools.course import LESSONS
from tests.unit.tools.test_cli import CODE

pytest.importorskip("jupyter_server")

ROOT = Path(__file__).parents[3]
TOKEN = "of-this-test"
SERVER = """
import sys
from jupyter_server.serverapp import ServerApp

app = ServerApp()
app.initialize(sys.argv[1:])
app.io_loop.add_callback(print, "listens", flush=True)
app.start()
"""
LEADS = re.compile(r"\]\(([^)\s]+)|<(?:img|a)\b[^>]*\b(?:src|href)=[\"']([^\"']+)")


@contextmanager
def served(root: Path, home: Path) -> Iterator[HTTPConnection]:
    """A server whose root is this folder, without the settings of whoever runs the tests."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = {"ServerApp.root_dir": root, "ServerApp.port": port, "ServerApp.port_retries": 0, "ServerApp.ip": "127.0.0.1",
               "ServerApp.open_browser": False, "ServerApp.allow_root": True, "IdentityProvider.token": TOKEN}
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, *(f"--{name}={value}" for name, value in options.items())],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "JUPYTER_NO_CONFIG": "1", "JUPYTER_RUNTIME_DIR": str(home), "JUPYTER_DATA_DIR": str(home)},
    )
    try:
        assert server.stdout is not None and server.stdout.readline() == "listens\n"
        yield HTTPConnection("127.0.0.1", port, timeout=60)
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize("place", ["make lab", "course FOLDER"])
def test_the_server_has_every_link_and_picture_of_the_notebooks(place: str, tmp_path: Path) -> None:
    root, notebooks = ROOT, "notebooks"
    if place == "make lab":
        assert "--ServerApp.root_dir='$(CURDIR)'" in (ROOT / "Makefile").read_text(encoding="utf-8")
    else:
        root, notebooks = tmp_path / "course", "."
        assert main(["course", str(root)]) == 0
    asked = set()
    for path in (root / notebooks).glob(LESSONS):
        for cell in nbformat.read(path, as_version=4).cells:
            links = ["".join(found) for found in LEADS.findall(CODE.sub("", cell.source))] if cell.cell_type == "markdown" else []
            asked |= {(path.name, link.split("#")[0]) for link in links if not re.match(r"[a-z]+:|#", link)}
    assert len(asked) > 40
    with served(root, tmp_path) as server:
        dead = []
        for notebook, link in sorted(asked):
            there = quote(posixpath.normpath(posixpath.join(notebooks, link)))
            server.request("GET", f"/files/{there}", headers={"Authorization": f"token {TOKEN}"})
            answer = server.getresponse()
            answer.read()
            if answer.status != 200:
                dead.append((notebook, link, answer.status))
    assert dead == []
