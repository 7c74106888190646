"""Statements of the hottest path, compiled once per process instead of at every call.

Django builds a query's SQL anew each time, which takes five to ten times as long as
SQLite takes to run it, and a turn needs thirty of them. Here the ORM writes the SQL
once, with `given` in place of the values; later calls only fill those in. So the SQL
still follows from the models, on either database, and the rows are the models' own.

Only for statements that every message passes; elsewhere a plain query reads better.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

from django.db import connection, models
from django.db.models.expressions import Expression
from django.db.models.query import ModelIterable, get_related_populators
from django.db.models.sql import UpdateQuery

T = TypeVar("T")


class Given(Expression):
    """Stands for a value that each call brings."""

    def __init__(self, name: str, field: models.Field[Any, Any]) -> None:
        super().__init__(output_field=field)
        self.name = name

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return "%s", [self]


def given(name: str, model: type[models.Model], field: str) -> Given:
    """The value called `name`, to be compared with or stored in the model's field."""
    return Given(name, model._meta.get_field(field))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with its parameters in order, some of them `Given`."""

    sql: str
    params: tuple[Any, ...]

    def execute(self, values: Mapping[str, Any]) -> Any:
        """A cursor that has run it; the caller closes it."""
        cursor = connection.cursor()
        try:
            cursor.execute(
                self.sql,
                [
                    one.output_field.get_db_prep_save(values[one.name], connection)
                    if isinstance(one, Given)
                    else one
                    for one in self.params
                ],
            )
        except BaseException:
            cursor.close()
            raise
        return cursor


class Select(Generic[T]):
    """A query of models (with `select_related`) or of `values_list` rows."""

    def __init__(self, make: Callable[[], models.QuerySet[Any, T]]) -> None:
        self._make = make
        self._plans: dict[str, _Plan] = {}
        self._lock = threading.Lock()

    def all(self, **values: Any) -> list[T]:
        plan = self._plans.get(connection.vendor) or self._compile()
        with plan.statement.execute(values) as cursor:
            rows = cursor.fetchall()
        return [plan.read(row) for row in rows]

    def first(self, **values: Any) -> T | None:
        return next(iter(self.all(**values)), None)

    def _compile(self) -> _Plan:
        with self._lock:
            plan = self._plans.get(connection.vendor)
            if plan is None:
                plan = self._plans[connection.vendor] = _Plan(self._make())
            return plan


class _Plan:
    """A compiled query, and how its rows become models."""

    def __init__(self, queryset: models.QuerySet[Any, Any]) -> None:
        compiler: Any = queryset.query.get_compiler(connection=connection)
        sql, params = compiler.as_sql()
        self.statement = Statement(sql, tuple(params))
        columns = [column[0] for column in compiler.select[: compiler.col_count]]
        self._converters = [
            (place, converters, column)
            for place, (converters, column) in compiler.get_converters(columns).items()
        ]
        self.read: Callable[[Sequence[Any]], Any] = self._values
        if issubclass(queryset._iterable_class, ModelIterable):
            self._set_up_models(compiler)

    def _set_up_models(self, compiler: Any) -> None:
        info, select = compiler.klass_info, compiler.select
        places = info["select_fields"]
        self._start, self._end = places[0], places[-1] + 1
        self._model = info["model"]
        self._names = [
            column[0].target.attname for column in select[self._start : self._end]
        ]
        populators: Any = get_related_populators
        self._related = populators(info, select, connection.alias)
        self.read = self._instance

    def _values(self, row: Sequence[Any]) -> Any:
        cells = list(row)
        for place, converters, column in self._converters:
            for convert in converters:
                cells[place] = convert(cells[place], column, connection)
        return tuple(cells)

    def _instance(self, row: Sequence[Any]) -> Any:
        cells = self._values(row)
        made = self._model.from_db(
            connection.alias, self._names, cells[self._start : self._end]
        )
        for one in self._related:
            one.populate(cells, made)
        return made


class Update:
    """A conditional update; which fields it changes is told with each call."""

    def __init__(self, make: Callable[[], models.QuerySet[Any, Any]]) -> None:
        self._make = make
        self._statements: dict[tuple[str, ...], Statement] = {}

    def run(self, changes: Mapping[str, Any], **values: Any) -> int:
        """Store the changes, by field name, where the values fit; returns the rows."""
        key = (connection.vendor, *changes)
        statement = self._statements.get(key)
        if statement is None:
            statement = self._statements[key] = self._compile(changes)
        filled = {f"new {name}": value for name, value in changes.items()}
        with statement.execute(values | filled) as cursor:
            count: int = cursor.rowcount
        return count

    def _compile(self, changes: Mapping[str, Any]) -> Statement:
        queryset = self._make()
        query: Any = queryset.query.chain(UpdateQuery)
        query.add_update_values(
            {name: given(f"new {name}", queryset.model, name) for name in changes}
        )
        sql, params = query.get_compiler(connection=connection).as_sql()
        return Statement(sql, tuple(params))


def insert(*rows: models.Model) -> None:
    """Insert new rows of one model in one statement; no signal is sent."""
    first = rows[0]
    fields, head, hole, tail = _insertion(
        type(first), connection.vendor, has_key=first.pk is not None
    )
    params = [
        field.get_db_prep_save(field.pre_save(row, True), connection)  # noqa: FBT003 - Django's
        for row in rows
        for field in fields
    ]
    with connection.cursor() as cursor:
        cursor.execute(head + ", ".join([hole] * len(rows)) + tail, params)
        keys = cursor.fetchall() if tail else ()
    for row, (key,) in zip(rows, keys, strict=False):
        row.pk = key
    for row in rows:
        row._state.adding, row._state.db = False, connection.alias


@lru_cache(maxsize=64)
def _insertion(
    model: type[models.Model], vendor: str, *, has_key: bool
) -> tuple[tuple[Any, ...], str, str, str]:
    """The fields that are written, and the statement: head, one row's hole, tail."""
    quote = connection.ops.quote_name
    meta = model._meta
    fields = tuple(
        field for field in meta.concrete_fields if has_key or not field.primary_key
    )
    names = ", ".join(quote(str(field.column)) for field in fields)
    tail = "" if has_key else f" RETURNING {quote(str(meta.pk.column))}"
    return (
        fields,
        f"INSERT INTO {quote(meta.db_table)} ({names}) VALUES ",  # noqa: S608 - the model's own names
        f"({', '.join(['%s'] * len(fields))})",
        tail,
    )
