"""What an error of Spark's says to whoever runs the job."""

from aiokafka.errors import ProducerFenced

from sequitur.spark.errors import told


def test_a_run_that_was_fenced_is_told_to_see_that_it_is_the_only_one() -> None:
    error = RuntimeError(f"the query ended\n\tat org.apache.spark\n{ProducerFenced()}\n")
    said = told(error, {})
    assert said.startswith("the query ended ProducerFenced: ")
    assert said.endswith("see that only one runs, and start it again")
