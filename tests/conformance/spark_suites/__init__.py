"""A hundred cases of Spark's own streaming suites, in our own words; test_spark_suites.py runs them.

    cases.py            what they have in common
    the other files     one for each kind of query; the first line names Spark's test classes
"""
