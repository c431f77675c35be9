"""Whether a Spark has what this package uses of its inside (engine/jvm/contract.py). No JVM is started.

    class_files    the classes in Spark's jars
    python_files   the names in PySpark's modules
    check          both lists against them: everything that is missing or has another signature
"""
