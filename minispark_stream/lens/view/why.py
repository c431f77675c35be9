"""Why is there such a step at all? What would go wrong without it.
"""

from __future__ import annotations

from collections.abc import Mapping

WHY: Mapping[str, str] = {
    "startQuery": "The plan is analysed once: every batch runs the same query, and a query that cannot be computed batch "
                  "by batch is refused here, before any data is read.",
    "trigger": "A stream has no end, so something has to decide when the data that has arrived makes a batch.",
    "populateStartOffsets": "Once, before the first trigger. Memory is gone after a crash; these two logs are what is left. A "
                            "batch that is in the offset log but not in the commit log may be half written: it runs again, "
                            "with the same offsets.",
    "latestOffset": "The batch needs a fixed end. What arrives from now on waits for the next batch.",
    "constructNextBatch": "Even an empty batch costs a Spark job. So there is one only for new data, or when the watermark "
                          "has moved and finished state waits to be emitted.",
    "walCommit": "Written before anything is read: after a crash, exactly this batch can be run again. That is the first "
                 "half of exactly-once (a repeatable source and a sink that knows the batch id are the other).",
    "commitSource": "This batch is in the log, so no restart can ask for the data of the batch before: the source may "
                    "forget it.",
    "purge": "A restart needs only the newest entries; the logs of a query that runs for years must not grow for ever.",
    "runBatch": "From here on everything can be repeated: two offsets fix what is read, and state and output carry the "
                "batch id.",
    "getBatch": "Spark is lazy: this only describes the data after the start offset up to the end offset. The files are "
                "read when the sink asks for rows.",
    "queryPlanning": "Every batch plans the same query over other data. Late rows are judged by the watermark of the batch "
                     "before and state by that of this batch, so that what one operator emits is not late for the next.",
    "addBatch": "Spark is lazy, and only this call starts a job. Reading, computing, the state operators and writing all "
                "happen inside it. A sink that asks for the rows twice computes them twice.",
    "stateOperator": "It runs in the tasks of the job that addBatch starts. A version is never changed in place: if the batch "
                     "fails now, the old version is still there, and the next try writes the new one again.",
    "updateWatermark": "The watermark moves only between batches, so that all tasks of a batch agree on it. That is why a "
                       "window is emitted one batch after the row that closed it.",
    "commitOffsets": "With this entry the batch is over; without it, a restart runs the batch again.",
    "finishTrigger": "What lastProgress and the listeners tell: the same numbers that Spark reports.",
    "maintenance": "To load a version means to read the newest snapshot and every delta after it; without new snapshots "
                   "that would take longer with every batch.",
    "getStartOffset": "The commit log alone counts here: an offset that was written without a commit says what was read, but "
                      "not that it was written.",
    "runContinuous": "To start a job takes longer than to process a row. So there is one job for all rows, and each row goes "
                     "through it by itself as soon as it is there.",
    "addOffset": "Nobody knows beforehand how many rows an epoch will have. So its end is written down when the readers have "
                 "passed it, and it cannot be run again as a batch can.",
    "commitEpoch": "Rows of an epoch that is not committed are read again after a crash, and some of them are then written "
                   "twice: at least once.",
}
