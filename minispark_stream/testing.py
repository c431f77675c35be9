"""Unit tests of a streaming query, on the model, on real Structured Streaming, or on both at once.

    from minispark_stream.testing import stream_test

    def counts(session, words):
        return words.groupBy("word").count()

    def test_words_are_counted(spark):
        with stream_test(spark, counts, output_mode="update", schemas={"words": "word string"}) as t:
            t.add([{"word": "a"}, {"word": "b"}, {"word": "a"}])
            t.expect([{"word": "a", "count": 2}, {"word": "b", "count": 1}])

docs/testing.md explains everything that `t` can do, and the plugin for pytest.
"""

from minispark_stream.tools.cause import of_import

try:
    from minispark_stream.tools.testing.kit import StreamTest, stream_test
except ImportError as e:
    raise of_import(e) from None

__all__ = ["StreamTest", "stream_test"]
