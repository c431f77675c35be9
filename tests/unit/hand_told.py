"""Tasks of hand-made traces: what those of an operator would tell of chosen rows, by the rules that a trace no longer knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minispark_stream.lens.trace.values import name_of

At = Mapping[str, Any]  # a row at the operator, as `arrivals` has it
Told = dict[str, list[dict[str, Any]]]


class Tasks:
    """The tasks of one operator. `meets`: whether a left and a right row of one key are a pair."""

    def __init__(self, meets: Callable[[At, At], bool] = lambda left, right: True):
        self.meets = meets
        self.state: dict[str, dict[str, Any]] = {}  # name -> what is told of it, and `until`, `side`, `at`, `matched`
        self.passed = self.stored = 0

    def told(self, decides: Mapping[str, Any], ats: Sequence[At]) -> Told:
        told: Told = {what: [] for what in ("late", "kept", "duplicate", "passed", "beyond the limit", "emitted", "removed")}
        late_ms, leaves = decides.get("late_ms"), decides.get("leaves_ms", [None])
        fresh = []
        for at in sorted(ats, key=lambda at: at["side"]):
            is_late = bool(late_ms) and at["time"] is not None and at["time"] <= late_ms
            if is_late:
                told["late"].append(self._item(decides, at))
            else:
                fresh.append(at)
        for at in fresh:
            getattr(self, decides["keeps"])(decides, at, told)
        for name, one in list(self.state.items()):
            bound = leaves[one["side"]]
            if decides.get("emits") == "all":
                told["emitted"].append(one["item"])
            if bound and one["until"] is not None and one["until"] <= bound:
                told["removed"].append(one["item"])
                if decides.get("emits") == "leaving":
                    told["emitted"].append(one["item"])
                if decides["keeps"] == "rows" and self._is_outer(decides, one["side"]) and not one["matched"]:
                    told["emitted"].append(self._pair(one["side"], one["at"], None))
                del self.state[name]
        if decides["keeps"] == "keys":
            told["removed"] = [{"key": item["key"]} for item in told["removed"]]
        return {what: items for what, items in told.items() if items}

    def _item(self, decides: Mapping[str, Any], at: At) -> dict[str, Any]:
        match decides["keeps"]:
            case "groups":
                return {"key": at["key"]}
            case "sessions":
                return {"key": at["key"], "start": at["start"], "end": at["time"]}
        return {"row": at.get("row"), "side": at["side"]}

    def groups(self, decides: Mapping[str, Any], at: At, told: Told) -> None:
        item = {"key": at["key"]}
        self.state.setdefault(name_of(at["key"]), {"item": item, "until": at["time"], "side": 0})
        if item not in told["kept"]:
            told["kept"].append(item)
            if decides["emits"] == "changed":
                told["emitted"].append(item)

    def sessions(self, decides: Mapping[str, Any], at: At, told: Told) -> None:
        def group(key: At) -> dict[str, Any]:
            return {name: value for name, value in key.items() if name != "session_window"}

        start, end, key = at["start"], at["time"], at["key"]
        touching = [
            (name, one["item"]) for name, one in self.state.items()
            if group(one["item"]["key"]) == group(key) and one["item"]["start"] <= end and start <= one["item"]["end"]
        ]
        for name, item in touching:
            start, end = min(start, item["start"]), max(end, item["end"])
            del self.state[name]
            told["kept"] = [other for other in told["kept"] if other is not item]
        item = {"key": key, "start": start, "end": end}
        self.state[name_of(item)] = {"item": item, "until": end, "side": 0}
        told["kept"].append(item)

    def keys(self, decides: Mapping[str, Any], at: At, told: Told) -> None:
        name = name_of(at["key"])
        told["duplicate" if name in self.state else "kept"].append(self._item(decides, at))
        if name not in self.state:
            self.state[name] = {"item": {"key": at["key"]}, "until": at["time"] + decides.get("lasts_ms", 0), "side": 0}

    def count(self, decides: Mapping[str, Any], at: At, told: Told) -> None:
        self.passed += 1
        told["passed" if self.passed <= decides["limit"] else "beyond the limit"].append(self._item(decides, at))

    def rows(self, decides: Mapping[str, Any], at: At, told: Told) -> None:
        side, bound = at["side"], decides["leaves_ms"][at["side"]]
        met = [
            one for one in self.state.values()
            if one["side"] != side and one["at"]["key"] == at["key"]
            and self.meets(*((at, one["at"]) if side == 0 else (one["at"], at)))
        ]
        for one in met:
            one["matched"] = True
            told["emitted"].append(self._pair(side, at, one["at"]))
        if side == 1 and not self._is_outer(decides, side) and bound and at["time"] <= bound:
            told["passed"].append({**self._item(decides, at), "why": "old"})
            return
        told["kept"].append(self._item(decides, at))
        self.stored += 1
        self.state[str(self.stored)] = {
            "item": self._item(decides, at), "until": at["time"], "side": side, "at": at, "matched": bool(met),
        }

    def _is_outer(self, decides: Mapping[str, Any], side: int) -> bool:
        return decides["join_type"] in (("LeftOuter", "RightOuter")[side], "FullOuter")

    def _pair(self, side: int, at: At, other: At | None) -> dict[str, Any]:
        rows = [at.get("row"), other and other.get("row")]
        return dict(zip(("left", "right"), rows if side == 0 else rows[::-1]))
