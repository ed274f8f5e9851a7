"""What is raised where Spark, its JVM or the way there fails."""

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)
"""What calls of Spark raise; the last two where its JVM has ended."""
