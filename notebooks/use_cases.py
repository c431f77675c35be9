"""The logs of notebook 20: made by arithmetic, so they are the same on every machine. A file is a list of JSON lines.

    dns_log(leak=True)     DNS requests of four laptops, a file for each five minutes; from 09:11 to 09:19 one of them leaks
    CONNECTIONS            what the DHCP server and the network saw, step by step: {"dhcp": [...], "tcp": [...]}
    DEVICES, NETWORKS      two tables that stand still
    latency_log()          how many milliseconds players of a game waited, by the network that they came from
"""

from __future__ import annotations

import json
from typing import Any

LAPTOPS = ("laptop-1", "laptop-2", "laptop-3", "laptop-4")
DEVICES = [("aa:01", "Ann's phone"), ("bb:02", "Bob's laptop"), ("cc:03", "a printer")]
NETWORKS = [(64500, "North Net"), (64501, "City Cable"), (64502, "Far Fibre")]
UNKNOWN_NETWORK = 64999


def _line(minute: int, second: int, **values: Any) -> str:
    """A JSON line; minutes count from 09:00."""
    return json.dumps({"ts": f"2024-01-01 {9 + minute // 60:02}:{minute % 60:02}:{second:02}", **values})


def dns_log(leak: bool = True) -> list[list[str]]:
    """Twenty-five minutes of DNS requests, from 09:05 on, a file for each five."""
    files: list[list[str]] = [[] for _ in range(5)]
    for minute in range(5, 30):
        for n, host in enumerate(LAPTOPS):
            for k in range(3):
                size = 50 + (13 * minute + 7 * n + 29 * k) % 40
                files[minute // 5 - 1].append(_line(minute, 17 * k + n, host=host, name=f"www{k}.example", bytes=size))
        if leak and 11 <= minute < 19:
            for k in range(10):
                name = f"{7919 * (10 * minute + k):x}.exfil.example"
                files[minute // 5 - 1].append(_line(minute, 5 * k, host=LAPTOPS[2], name=name, bytes=220 + (minute + k) % 30))
    return files


def _lease(minute: int, address: str, mac: str) -> str:
    return _line(minute, 0, ip=address, mac=mac)


def _connection(minute: int, address: str, target: str) -> str:
    return _line(minute, 0, ip=address, target=target)


CONNECTIONS = [
    {"dhcp": [_lease(0, "10.0.0.7", "aa:01"), _lease(5, "10.0.0.8", "bb:02")], "tcp": [_connection(3, "10.0.0.7", "mail")]},
    {"tcp": [_connection(12, "10.0.0.8", "news"), _connection(20, "10.0.0.9", "exfil")]},
    {"dhcp": [_lease(30, "10.0.0.7", "cc:03")], "tcp": [_connection(31, "10.0.0.7", "exfil")]},
    {"dhcp": [_lease(70, "10.0.0.8", "bb:02")], "tcp": [_connection(75, "10.0.0.8", "mail")]},
]


def latency_log() -> list[list[str]]:
    """Half an hour of a game, a file for each ten minutes; City Cable grows slow from 09:12 on."""
    files: list[list[str]] = [[] for _ in range(3)]
    for minute in range(30):
        for n, network in enumerate((*(number for number, _ in NETWORKS), UNKNOWN_NETWORK)):
            slower = 8 * max(minute - 12, 0) if n == 1 else 0
            files[minute // 10].append(_line(minute, 10 * n, network=network, ms=30 + 15 * n + 5 * minute % 7 + slower))
    return files
