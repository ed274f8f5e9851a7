"""What the command lines of Spark's jobs have in common."""

import argparse
import os
from pathlib import Path


def add_broker(parser: argparse.ArgumentParser) -> None:
    """Add --broker."""
    parser.add_argument(
        "--broker",
        default=os.environ.get("SEQUITUR_BROKER", "127.0.0.1:9092"),
        help="host:port of Kafka (SEQUITUR_BROKER, else %(default)s)",
    )


def add_kafka(parser: argparse.ArgumentParser) -> None:
    """Add --kafka-option and --kafka-properties; see `kafka_options`."""
    parser.add_argument(
        "--kafka-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of Spark's Kafka source, such as kafka.security.protocol=SSL; may be repeated",
    )
    parser.add_argument(
        "--kafka-properties",
        type=Path,
        metavar="FILE",
        help="client properties, such as sasl.jaas.config=…: secrets are not for command lines",
    )


def count(text: str) -> int:
    """A number from 1 on."""
    if (number := int(text)) < 1:
        raise ValueError
    return number


def seconds(text: str) -> float:
    """A time of up to an hour."""
    if not 0 <= (number := float(text)) <= 3600:
        raise ValueError
    return number
