"""What Spark notes of a query."""

from sequitur.spark.checkpoints import topics_in


def test_the_topics_of_a_note_of_offsets() -> None:
    note = 'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"a.b":{"0":3,"1":0},"c":{"0":7}}'
    assert topics_in(note) == {"a.b", "c"}
    assert topics_in('v1\n{"batchWatermarkMs":0}\n-') == set()
    assert topics_in("") == set()
