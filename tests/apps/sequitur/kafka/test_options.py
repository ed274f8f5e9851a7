"""Options of the Kafka source: merged, the materializer's own refused, secrets never told."""

from pathlib import Path

import pytest

from sequitur.kafka.options import OptionError, kafka_options, without_secrets


def test_options_go_before_the_properties_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# how to log in\n"
        "security.protocol = SASL_SSL\n"
        "\n"
        "sasl.jaas.config=org.Login required \\\n"
        '    username="me" password="a=b";\n'
        "client.id=one\n"
    )
    assert kafka_options(["kafka.client.id=two", "minPartitions= 4 "], file) == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.jaas.config": 'org.Login required username="me" password="a=b";',
        "kafka.client.id": "two",
        "minPartitions": "4",
    }


@pytest.mark.parametrize(
    "option", ["kafka.isolation.level=x", "subscribe=x", "Assign=x", "startingOffsets=latest"]
)
def test_what_the_materializer_sets_is_refused(option: str) -> None:
    with pytest.raises(OptionError, match="set by the materializer itself"):
        kafka_options([option])


def test_what_is_no_option_is_refused_without_telling_it(tmp_path: Path) -> None:
    with pytest.raises(OptionError) as refused:
        kafka_options(["a-secret"])
    assert "a-secret" not in str(refused.value)
    file = tmp_path / "client.properties"
    file.write_text("fine=1\na-secret\n")
    with pytest.raises(OptionError, match="entry 2 is no key=value") as refused:
        kafka_options([], file)
    assert "a-secret" not in str(refused.value)
    with pytest.raises(OptionError, match="missing"):
        kafka_options([], tmp_path / "missing")
    file.write_bytes(b"\xff")
    with pytest.raises(OptionError, match="it is no text"):
        kafka_options([], file)


def test_secrets_are_cut_from_messages() -> None:
    options = {"kafka.ssl.keystore.password": "hush", "kafka.client.id": "one"}
    assert without_secrets("hush, said one", options) == "…, said one"
