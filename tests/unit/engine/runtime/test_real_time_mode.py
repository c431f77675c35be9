"""Real-time mode: what Spark would run is refused in the model's own words."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException

from minispark_stream.engine.runtime.real_time_mode import check_sources
from minispark_stream.extras.kafka.source import KafkaMicroBatchStream


def test_what_spark_would_run_is_refused() -> None:
    session: Any = None
    with pytest.raises(AnalysisException, match="minispark_stream has no engine for real-time mode"):
        check_sources(session, [object.__new__(KafkaMicroBatchStream)])
