"""The Delta sink: a folder of parquet files, and a transaction log that says which of them count, and which query wrote them.

Models: DeltaSink of Delta Lake (Sink document, "DeltaSink"); the log is written by the library `deltalake`.

`add_batch`, when the columns of the batch have been checked (schema.py):
1. `txnVersion(queryId)` is the newest batch of this query that is in the log. A batch that is not newer was committed before
   and is skipped: it was run again after a crash. With a replayable source this makes every row appear exactly once.
2. Otherwise, the executors write the batch as parquet files into the folder of the table
   (engine/sinks/manifest_file_commit_protocol.py).
3. In `append` mode, the commit adds these files. In `complete` mode, it also removes all files that were there.
4. The same commit contains `txn`: this query has done this batch. All of this is in one file of the log, which either exists
   or does not.

    table/_delta_log/00000000000000000007.json
        {"commitInfo":{"operationParameters":{"outputMode":"Complete","queryId":"483a…","epochId":"7"},…}}
        {"add":{"path":"part-00000-….parquet","size":706,"stats":"{\\"numRecords\\":3,…}",…}}       (2) (3)
        {"remove":{"path":"part-00000-….parquet",…}}                                              (3) complete only
        {"txn":{"appId":"483a…","version":7}}                                                     (4)
    table/part-00000-….parquet        added by a commit, and not removed by a later one: visible

A kill after (2) leaves files that no commit names: nobody sees them, and Delta's VACUUM deletes them. Another writer that
commits between (1) and (4) does no harm to an append; what contradicts the batch (a newer batch of the same query, files that
`complete` did not see) makes the commit fail, and with it the query.

If the files are not local, `deltalake` takes its credentials from the environment. Each engine can continue where the other
has stopped.

Differs from Delta: the library cannot do everything as Delta does it. The log calls the operation WRITE or CREATE TABLE, where
Delta calls it STREAMING UPDATE; there are no `.crc` files beside the log; `mergeSchema` with `append` makes a commit of its
own before that of the batch; `overwriteSchema` is not supported; tables whose rows must be checked or changed while they are
written (schema.py) and tables of the catalog are refused.
Shown by tests/conformance/test_delta.py::test_what_only_the_library_does,
tests/conformance/test_delta.py::test_overwrite_schema_is_refused,
tests/spark/test_differences.py::test_what_only_the_model_refuses.
"""

from __future__ import annotations

import importlib.util
import logging
import time
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from minispark_stream.engine.jvm import files
from minispark_stream.engine.jvm.errors import illegal_argument
from minispark_stream.engine.sinks.base import QUERY_ID_KEY, Sink, SinkSpec
from minispark_stream.engine.sinks.file import normalized_columns
from minispark_stream.engine.sinks.manifest_file_commit_protocol import ManifestFileCommitProtocol
from minispark_stream.extras.delta import files as delta_files
from minispark_stream.extras.delta import schema as delta_schema

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

logger = logging.getLogger(__name__)
_WRITER_OPTIONS = ("compression", "maxrecordsperfile")


class DeltaSink(Sink):
    """`writeStream.format("delta").partitionBy(...).options(...).start(path)`.

    Of `spec.options`, `path` is required; `mergeSchema`, `compression` and `maxRecordsPerFile` are known.

    Raises:
        ImportError: the library `deltalake` is not installed.
        IllegalArgumentException: there is no path.
        AnalysisException: the output mode is update, a partition column does not exist, or clustering or `overwriteSchema` is
            asked for.
    """

    is_v1 = True

    def __init__(self, spec: SinkSpec):
        session, options, output_mode = spec.session, spec.options, spec.output_mode
        if importlib.util.find_spec("deltalake") is None:
            raise ImportError("The delta sink needs the library deltalake: pip install deltalake")
        self._partition_by = normalized_columns(session, spec.df, spec.partition_by, "Partition")
        if (path := options.get("path")) is None:
            raise illegal_argument("'path' is not specified")
        if output_mode not in ("append", "complete"):
            raise delta_schema.delta_error(
                "DELTA_UNSUPPORTED_OUTPUT_MODE", "Data source org.apache.spark.sql.delta.sources.DeltaDataSource does not "
                f"support {output_mode.capitalize()} output mode",
            )
        if spec.cluster_by:
            raise AnalysisException(message="minispark_stream's delta sink does not support clusterBy.")
        if options.get("overwriteschema", "false").lower() == "true":
            raise AnalysisException(message="minispark_stream's delta sink does not support the option overwriteSchema.")
        self._merge_schema = options.get("mergeschema", "false").lower() == "true"
        # As Delta does: times in the names of folders are in UTC.
        self._writer_options = {k: options[k] for k in _WRITER_OPTIONS if k in options} | {"timeZone": "UTC"}
        self._complete = output_mode == "complete"
        self._files, self._path = files.qualified(session, path)
        uri = self._path.toUri()
        self._uri = str(uri.getPath() if uri.getScheme() == "file" else self._path.toString())
        self._table: DeltaTable | None = None
        self.description = f"DeltaSink[{files.path(session, path).toString()}]"

    def add_batch(self, batch_id: int, data: DataFrame) -> None:
        session = data.sparkSession
        query_id = session.sparkContext.getLocalProperty(QUERY_ID_KEY)
        assert query_id is not None, "a batch is written on the thread of its query"
        table = self._newest()
        plan = delta_schema.plan_write(data, table, self._partition_by, self._merge_schema, self._complete)
        done = table.transaction_version(query_id) if table is not None else None
        if done is not None and done >= batch_id:  # (1)
            logger.info("Skipping already complete epoch %d, in query %s", batch_id, query_id)
            return
        adds = self._write(session, plan)  # (2)
        removed = len(table.file_uris()) if table is not None and self._complete else 0
        self._commit(table, plan, adds, self._properties(query_id, batch_id, adds, removed))

    def _newest(self) -> DeltaTable | None:
        """The table as it is now, or None while there is none."""
        from deltalake import DeltaTable

        if self._table is not None:
            self._table.update_incremental()
        elif DeltaTable.is_deltatable(self._uri):
            self._table = DeltaTable(self._uri)
        return self._table

    def _write(self, session: SparkSession, plan: delta_schema.WritePlan) -> list[AddAction]:
        statuses = ManifestFileCommitProtocol(session, self._files, self._path).write(
            plan.data, "parquet", plan.partition_columns, self._writer_options
        )
        root = self._path.toUri().toString()
        adds = [delta_files.add_action(status, root, plan.partition_columns) for status in statuses]
        return [add for add in adds if delta_files.number_of_rows(add) > 0]

    def _commit(
        self, table: DeltaTable | None, plan: delta_schema.WritePlan, adds: list[AddAction], properties: CommitProperties
    ) -> None:
        from deltalake import Field, Schema
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import create_table_with_add_actions

        if table is None:
            create_table_with_add_actions(
                self._uri, Schema.from_json(plan.schema), adds, mode="error", partition_by=plan.partition_columns,
                commit_properties=properties,
            )
            return
        if plan.new_fields and not self._complete:
            table.alter.add_columns([Field.from_json(field) for field in plan.new_fields])
            table.update_incremental()
        actions: list[AddAction | RemoveAction] = [*adds]
        try:
            table.create_write_transaction(  # (3)
                actions, "overwrite" if self._complete else "append", Schema.from_json(plan.schema), plan.partition_columns,
                commit_properties=properties,
            )
        except CommitFailedError as e:
            raise RuntimeError(
                f"Another writer has changed {self._uri} while this batch was written, and the two changes conflict: {e}. "
                "Nothing of the batch is visible; it runs again when the query is started again."
            ) from e

    def _properties(self, query_id: str, batch_id: int, adds: list[AddAction], removed: int) -> CommitProperties:
        from deltalake import CommitProperties, Transaction

        metrics = {
            "numRemovedFiles": removed, "numAddedFiles": len(adds), "numOutputRows": sum(map(delta_files.number_of_rows, adds)),
            "numOutputBytes": sum(add.size for add in adds),
        }
        info: dict[str, Any] = {
            "operationParameters": {
                "outputMode": "Complete" if self._complete else "Append", "queryId": query_id, "epochId": str(batch_id),
            },
            "isolationLevel": "Serializable",
            "isBlindAppend": not self._complete,
            "operationMetrics": {name: str(value) for name, value in metrics.items()},
        }
        now_ms = time.time_ns() // 1_000_000
        return CommitProperties(
            custom_metadata=info, app_transactions=[Transaction(query_id, batch_id, now_ms)],  # (4)
            # The library would try again, and leave in the table what was appended meanwhile.
            max_commit_retries=0 if self._complete else None,
        )
