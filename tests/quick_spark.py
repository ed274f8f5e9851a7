"""Settings for Spark where it runs a few small queries: compiling them costs more than it gains."""

JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For Kafka's too: its start takes 3.7 s of CPU in place of 6.1 s."""
SETTINGS = {
    "spark.driver.extraJavaOptions": " ".join(JVM),
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


LONG = {
    **SETTINGS,
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Xmn512m",
    "spark.driver.memory": "2g",
}
"""For a session that lives for minutes: it gains from the better compiler, and from room."""


def conf(settings: dict[str, str] = SETTINGS) -> list[str]:
    """The words for spark-submit."""
    return [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]


def environment(settings: dict[str, str] = SETTINGS) -> dict[str, str]:
    """For a process that makes a session of its own."""
    words = [f"'{word}'" if " " in word else word for word in conf(settings)]
    return {"PYSPARK_SUBMIT_ARGS": " ".join([*words, "pyspark-shell"])}
