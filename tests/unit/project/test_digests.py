"""What of the tests' sources a recording depends on (tests/conformance/digests.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import digests, test_arbitrary_state, test_limit
from tests.conformance.digests import what_runs

TEST = """
from tests.conformance.inputs import rows_of
LIMITS = [1, 2]
pytestmark = 3
def test_it(compare, folder):
    "What it is about."
    compare(count(), folder)  # a comment
def count(): return LIMITS[0]
def folder(): return 1
def test_another(): return other()
def other(): return 2
"""


@pytest.fixture
def runs(tmp_path):
    """What `test_it` runs, after some words in its module were replaced."""

    def runs(old="", new=""):
        digests._module.cache_clear()
        digests._definition.cache_clear()
        file = tmp_path / "test_it.py"
        file.write_text(TEST.replace(old, new) if old else TEST)
        return what_runs(file, "test_it")

    return runs


@pytest.mark.parametrize(("old", "new"), [("[1, 2]", "[2, 1]"), ("return 1", "return 3"), ("compare(count(), folder)", "compare(1, 2)"), ("pytestmark = 3", "")])
def test_what_a_test_runs_counts(runs, old, new):
    assert runs(old, new) != runs()


@pytest.mark.parametrize(("old", "new"), [("# a comment", ""), ("about", "for"), ("return 2", "return 3"), ("def other", "def others")])
def test_what_it_does_not_run_does_not_count(runs, old, new):
    assert runs(old, new) == runs()


def test_what_it_imports_from_the_tests_counts():
    text = what_runs(Path(test_limit.__file__), "test_limit_of_appended_rows")
    assert "name='rows_of'" in text
    assert "name='random_rows'" not in text


def test_the_fixtures_that_it_asks_for_count():
    text = what_runs(Path(test_limit.__file__), "test_limit_of_appended_rows")
    assert "name='compare'" in text
    assert "local[2]" in text  # the fixture `spark`, in another file
    assert "name='s3_server'" not in text


def test_a_fixture_that_is_overridden_counts_where_the_other_one_asks_for_it():
    text = what_runs(Path(test_arbitrary_state.__file__), "test_a_state_is_kept_from_batch_to_batch")
    assert text.count("FunctionDef(name='compare'") == 2


def test_no_version_of_python_writes_it_in_another_way(tmp_path):
    (tmp_path / "module.py").write_text("def f(): 'What it does.'; return None\n")
    arguments = "arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])"
    function = f"FunctionDef(name='f', args={arguments}, body=[Return(value=Constant(value=None))], decorator_list=[])"
    assert digests.module_text(tmp_path / "module.py") == f"Module(body=[{function}], type_ignores=[])"
