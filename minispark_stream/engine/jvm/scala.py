"""Scala values and classes, seen from Python through py4j.

    items(seq)               a Scala collection as a list, one call to the JVM for each element
    texts(session, seq, m)   what a method returns for every element, as texts, with a few calls for all elements together
    bytes_of(session, it)    the byte arrays of a Scala iterator, one after the other
    seq(session, values)     a list as a Scala Seq
    call(function, a=...)    a call that shows the names of the parameters to the reader
    class_name(node)         the simple class name of a plan node or an expression: "Aggregate", "LogicalRDD", ...
    java_class(session, n)   a Java class by its name in the contract with Spark (contract.py)

Nothing here knows about plans or streams, and Spark has nothing of this kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pyspark.serializers import NoOpSerializer
from pyspark.sql import SparkSession

from minispark_stream.engine.jvm.contract import ENGINE

JavaObject = Any


def jvm(session: SparkSession) -> Any:
    return session.sparkContext._jvm


def gateway(session: SparkSession) -> Any:
    return session.sparkContext._gateway


@lru_cache(maxsize=256)
def _java_class(view: Any, name: str) -> Any:
    found = view
    for part in ENGINE[name].split("."):
        found = getattr(found, part)
    return found


def java_class(session: SparkSession, name: str) -> Any:
    """A Java class by its name in the contract. Every look-up would ask the JVM, so the classes are kept."""
    return _java_class(jvm(session), name)


@lru_cache(maxsize=8)
def _nil(view: Any) -> JavaObject:
    return _converters(view).asScala(view.java.util.ArrayList()).toList()


def _converters(view: Any) -> Any:
    return _java_class(view, "scala.jdk.javaapi.CollectionConverters")


def as_scala(session: SparkSession, collection: JavaObject) -> JavaObject:
    """A Java collection, map or iterator as a Scala one."""
    return _converters(jvm(session)).asScala(collection)


def identity(session: SparkSession) -> JavaObject:
    """The function that returns its argument."""
    return getattr(companion(session, "scala.Predef"), "$conforms")()


def items(seq: JavaObject) -> list[JavaObject]:
    """A Scala collection as a list."""
    return [seq.apply(i) for i in range(seq.size())]


def texts(session: SparkSession, values: JavaObject, *methods: str) -> list[str]:
    """The text of `value.first().second()...` for every value of a Scala collection, in a few calls however many there are.

    Args:
        methods: methods without arguments, such as "java.io.File.getName" or "Path.toUri". No text may be empty.
    """
    for method in methods:
        values = values.map(_as_function(jvm(session), method))
    joined = values.mkString("\0")
    return joined.split("\0") if joined else []


def bytes_of(session: SparkSession, arrays: JavaObject) -> bytes:
    """The byte arrays of a Scala iterator, one after the other.

    They come through a socket, as the rows of PySpark's own `collect` do: py4j takes 20 ms of Python's time for 40 KB of bytes.

    Raises:
        JavaError, or its equivalent of PySpark's: what the iterator raised.
    """
    from pyspark.util import _load_from_socket  # elsewhere in PySpark 3.5, whose queries are only looked at

    served = java_class(session, "PythonRDD").serveIterator(arrays, "serve bytes")
    with _load_from_socket(served, NoOpSerializer()) as stream:
        received = b"".join(stream)
    served[2].getResult()  # an iterator that raises an error only ends the stream
    return received


@lru_cache(maxsize=64)
def _as_function(view: Any, method: str) -> JavaObject:
    """A Java method as a Scala function, made by the JVM itself: no call of it goes through Python."""
    return _function(view, method_handle(view, method))


def method_handle(view: Any, method: str, parameter: JavaObject | None = None) -> JavaObject:
    """A Java method by its name, that of its class included, and the class of its parameter, if it has one."""
    owner, _, name = ENGINE[method].rpartition(".")
    classes = view.java.lang.Class
    parameters = view.java.lang.reflect.Array.newInstance(classes.forName("java.lang.Class"), int(parameter is not None))
    if parameter is not None:
        parameters[0] = parameter
    found = classes.forName(owner).getMethod(name, parameters)
    return view.java.lang.invoke.MethodHandles.publicLookup().unreflect(found)


def function_of(session: SparkSession, method: str, parameter: str, owner: JavaObject) -> JavaObject:
    """A method of `owner`, by its name and the class of its parameter, as a Scala function."""
    view = jvm(session)
    handle = method_handle(view, method, view.java.lang.Class.forName(parameter))
    return _function(view, handle.bindTo(owner))


def by_class(view: Any, cases: Mapping[str, JavaObject]) -> JavaObject:
    """A Scala function that calls the method that belongs to the class of its argument; it returns other objects unchanged."""
    handles, types = view.java.lang.invoke.MethodHandles, view.java.lang.invoke.MethodType
    thing = view.java.lang.Class.forName("java.lang.Object")
    chosen, instance = handles.identity(thing), method_handle(view, "java.lang.Class.isInstance", thing)
    for name, method in cases.items():
        method = method.asType(types.methodType(thing, thing))
        chosen = handles.guardWithTest(instance.bindTo(view.java.lang.Class.forName(ENGINE[name])), method, chosen)
    return _function(view, chosen)


def _function(view: Any, handle: JavaObject) -> JavaObject:
    interface = view.java.lang.Class.forName("scala.Function1")
    return view.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(interface, handle)


def seq(session: SparkSession, values: Iterable[JavaObject]) -> JavaObject:
    """A Scala (immutable) Seq: a List, built from its end, one call to the JVM for each element."""
    result = _nil(jvm(session))
    for value in reversed(list(values)):
        result = getattr(result, "$colon$colon")(value)
    return result


def strings(session: SparkSession, values: Sequence[str]) -> JavaObject:
    """Texts as a Scala Seq, in a few calls altogether; none may be empty."""
    array = java_class(session, "java.util.regex.Pattern").compile("\0").split("\0".join(values))
    return java_class(session, "scala.collection.immutable.ArraySeq").unsafeWrapArray(array if values else array[:0])


def fields(product: JavaObject) -> dict[str, JavaObject]:
    """The fields of a case class by their names, in the order in which its `copy` takes them.

        call(node.copy, **fields(node) | {"child": other})      the node on top of another child
    """
    return {str(product.productElementName(i)): product.productElement(i) for i in range(product.productArity())}


def call(function: Callable[..., JavaObject], **arguments: Any) -> JavaObject:
    """Call a Java method with its arguments in the order in which they are written; the names are for the reader only."""
    return function(*arguments.values())


def class_name(node: JavaObject) -> str:
    """The simple Scala class name of a plan node or expression: "Aggregate", "LogicalRDD", ..."""
    return str(node.getClass().getSimpleName())


@lru_cache(maxsize=256)
def _companion(view: Any, name: str) -> JavaObject:
    return getattr(_java_class(view, f"{ENGINE[name]}$"), "MODULE$")


def companion(session: SparkSession, name: str) -> JavaObject:
    """The Scala object `name` (a companion without static forwarders cannot be reached by its plain name)."""
    return _companion(jvm(session), name)


@lru_cache(maxsize=64)
def _constant(view: Any, name: str) -> JavaObject:
    return _java_class(view, name)()


def constant(session: SparkSession, name: str) -> JavaObject:
    """The constant that the static method `name` returns; the JVM is asked once."""
    return _constant(jvm(session), name)


def none(session: SparkSession) -> JavaObject:
    return constant(session, "scala.Option.empty")


def java_map(session: SparkSession, values: Mapping[str, str]) -> JavaObject:
    """An immutable Scala Map."""
    utils = java_class(session, "PythonUtils")
    return utils.toScalaMap(java_class(session, "java.util.HashMap")(dict(values)))


def some(session: SparkSession, value: JavaObject) -> JavaObject:
    return java_class(session, "scala.Option").apply(value)
