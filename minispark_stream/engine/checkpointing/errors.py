"""PySpark's exceptions; without a PySpark whose exceptions have conditions, exceptions with the same names and texts.

Models: `SparkRuntimeException` (no document).

    str(SparkRuntimeException(message="no such file", errorClass="X"))    ->    "[X] no such file", with and without PySpark

A checkpoint can be read where only numpy, pyarrow and xxhash are installed, and if it is damaged, the errors there have the
same texts as elsewhere. With PySpark 4.0 or newer, these classes are PySpark's own.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from minispark_stream.engine.spark_versions import reads_with_pyspark

if reads_with_pyspark():
    from pyspark.errors import PySparkException, PySparkValueError, SparkRuntimeException
else:

    class PySparkException(Exception):  # type: ignore[no-redef]
        def __init__(self, message: str, errorClass: str | None = None, messageParameters: Mapping[str, str] | None = None):
            super().__init__(message if errorClass is None else f"[{errorClass}] {message}")
            self._errorClass = errorClass
            self._messageParameters = messageParameters

        def getCondition(self) -> str | None:
            return self._errorClass

        def getMessageParameters(self) -> Mapping[str, str] | None:
            return self._messageParameters

    class PySparkValueError(PySparkException, ValueError):  # type: ignore[no-redef]
        pass

    class SparkRuntimeException(PySparkException):  # type: ignore[no-redef]
        pass


__all__ = ["PySparkException", "PySparkValueError", "SparkRuntimeException"]
