"""The tables and views of Spark's session catalog.

These are calls of SessionCatalog's own methods.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import files, scala, sessions


class CatalogTable(NamedTuple):
    """What the catalog says of a table or view: the format of a table's files, and the folder where they are."""

    is_view: bool
    provider: str
    location: str


def quoted(name: str) -> str:
    """A name as SQL and Spark's messages quote it."""
    return "`" + name.replace("`", "``") + "`"


def name_parts(session: SparkSession, name: str) -> list[str]:
    """`db.t` as ["db", "t"]. Raises ParseException if it is not a name."""
    return scala.items(session._jsparkSession.sessionState().sqlParser().parseMultipartIdentifier(name))


def catalog_of(session: SparkSession, parts: list[str]) -> str:
    """The catalog that a name begins with; the current catalog if it begins with none."""
    sessions.set_active_session(session)  # whose confs say which catalogs there are
    catalogs = session._jsparkSession.sessionState().catalogManager()
    return parts[0] if len(parts) > 1 and catalogs.isCatalogRegistered(parts[0]) else str(catalogs.currentCatalog().name())


def is_temp_view(session: SparkSession, parts: list[str]) -> bool:
    return bool(session._jsparkSession.sessionState().catalog().isTempView(scala.seq(session, parts)))


def table(session: SparkSession, name: str) -> CatalogTable:
    """A table or view that exists."""
    state = session._jsparkSession.sessionState()
    found = state.catalog().getTableMetadata(state.sqlParser().parseTableIdentifier(name))
    is_view = found.tableType().name() == "VIEW"
    location = "" if is_view else str(files.path(session, found.location()).toString())
    return CatalogTable(is_view, "" if is_view else str(found.provider().get()), location)
