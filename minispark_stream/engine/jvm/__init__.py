"""The only folder of the engine that uses py4j: what the engine asks of Spark SQL, as functions with names and types.

    scala            values and classes of Scala
    sessions         confs, and the session that is active on a thread
    errors           Spark's errors
    builders         what readStream and writeStream need: names, options, schemas, output modes
    expressions      columns and schemas, and the types of rows in a task
    plans            logical plans, and DataFrames of them
    query_execution  the phases of a plan: analysed, optimised, planned, prepared; the time and the random numbers of a batch
    physical         physical plans
    state_rdd        a Python task over each partition
    executors        on which host each partition is computed
    files            paths, listings, plans that read files, jobs that write them
    tables           the catalog
    progress         the report of a batch as a Java object
    queries          a query of real Structured Streaming, to compare with
    stepped_queries  the same with a clock of our own

Nothing here lets a class of Structured Streaming do the engine's work: these are calls of batch Spark. Only the last two
modules deal with real streaming queries, which the comparisons run.
"""
