"""What Spark's errors say to whoever runs a job, and what to do about those that are known."""

from collections.abc import Mapping

from sequitur.kafka.options import without_secrets

REMEDIES = {
    "data source: kafka": (
        "Spark has no Kafka connector: run scripts/setup, or give spark-submit "
        "--packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION"
    ),
    "failOnDataLoss": (
        "Kafka no longer has records that were not read: a topic was deleted or its retention is "
        "too short. If what is left is to be read, add --kafka-option failOnDataLoss=false once; "
        "if a topic was made again, delete the checkpoint folder"
    ),
    "Connection refused": "Spark's JVM has ended; what was done is kept, start again",
    "Mkdirs failed": "see that --checkpoint names a folder that can be written to",
    "KafkaConnectionError": "see that Kafka runs there, and check --broker",
    "ProducerFenced": (
        "another run of the topology has begun, or this one stood still for longer than a "
        "transaction may take: see that only one runs, and start it again"
    ),
    "TimeoutException": "Kafka did not answer: check --broker and the options it needs",
    "JAVA_GATEWAY_EXITED": "Spark needs Java 17 or 21: run scripts/setup, or set JAVA_HOME",
}
"""Part of a message of Spark → what to do."""


def told(error: Exception, kafka: Mapping[str, str], remedies: Mapping[str, str] = REMEDIES) -> str:
    """What Spark says, on one line, without its plans and stacks, and what to do if that is known.

    kafka: options of its Kafka source, whose secrets are left out. remedies: see `REMEDIES`.
    """
    text = str(error).partition("=== Streaming Query")[0].partition("JVM stacktrace")[0].strip()
    lines = (line.strip() for line in text.splitlines() if not line.startswith("\tat "))
    text = " ".join(filter(None, lines)) or repr(error)
    found = (remedy for sign, remedy in remedies.items() if sign in text)
    return without_secrets(". ".join([text, *list(found)[:1]]), kafka)
