"""The only folder of the engine with py4j: what it asks of Spark SQL and of the JVM, as functions with names and types.

    scala         values and classes of Scala
    sessions      confs, and the session that is active on a thread
    builders      what readStream and writeStream ask: names, options, schemas, output modes
    plans         logical and physical plans, and DataFrames of them
    expressions   columns, and schemas
    times         durations, and the current time in a plan
    files         paths, listings, plans that read files, jobs that write them
    tables        the catalog
    errors        Spark's errors

Nothing here calls a class of Structured Streaming to do its work: these are calls of batch Spark.
"""
