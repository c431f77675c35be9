"""A hundred cases of Spark's own streaming suites, in our own words; test_spark_suites.py runs them.

    cases.py            what they have in common
    the other files     one for each kind of query; the first line names Spark's test classes

Whoever imports one of them imports all, so that CASES is complete.
"""

from tests.conformance.spark_suites import (  # noqa: F401 - each brings its cases
    aggregation,
    arbitrary_state,
    deduplication,
    event_time,
    joins,
    queries,
    sessions,
    several_operators,
)
