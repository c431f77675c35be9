"""Queries that nobody wrote: a generator, and the comparison of what both engines make of a query.

Every query is a chain of steps over rows (ts, k, v, w), and each step gives such rows again, so that any step may follow any other.

    rows.py          types, values, and the rows of a stream
    sources.py       how a stream keeps its rows: json, csv, text, parquet, folders by value, the rate source
    tables.py        static sides, which change while the query runs
    row_wise.py      steps without state: expressions, functions of the user, explode, tables
    stateful.py      steps with state
    drawing.py       a seed -> a whole case: query, rows, confs, restarts
    comparing.py     a case -> the differences of the engines
"""
