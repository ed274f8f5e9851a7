import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Kafka Streams on the flights: departures by aircraft and day, mean delay by airport and hour, and
 * the weather at each departure. Each table goes to the topic `GROUP.TABLE`.
 *
 * <p>The records' timestamps are the events' own times, which is what windows and joins go by.
 *
 * <p>Besides the variables of every peer: WEATHER, the topic of the reports, keyed by airport; its
 * INPUT is keyed by aircraft. TABLES, which of the three, by commas; GRACE, milliseconds of windows
 * and join; VERSIONED, whether the weather is a versioned table, which a join with grace needs.
 * IDLE, milliseconds that a task waits for another input before it goes on without. THREADS: 1 if
 * not said.
 */
public final class Verbs {
  private static final ObjectMapper MAPPER =
      new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
  private static final Duration HISTORY = Duration.ofDays(30);

  public record Move(String tail, long number, String kind, String time, int dep_delay, String origin) {}

  public record Report(String time, Double wind_speed) {}

  public record Mean(long sum, long count) {
    Mean add(Move move) {
      return new Mean(sum + move.dep_delay(), count + 1);
    }
  }

  public record Flown(String tail, long number, String reported, Double wind_speed) {}

  /** What a type is as JSON. */
  private static <T> Serde<T> json(Class<T> type) {
    ObjectReader reader = MAPPER.readerFor(type);
    ObjectWriter writer = MAPPER.writerFor(type);
    return Serdes.serdeFrom(
        (topic, value) -> {
          try {
            return value == null ? null : writer.writeValueAsBytes(value);
          } catch (IOException error) {
            throw new SerializationException(error);
          }
        },
        (topic, bytes) -> {
          try {
            return bytes == null ? null : reader.readValue(bytes);
          } catch (IOException error) {
            throw new SerializationException(error);
          }
        });
  }

  private static String keyed(Windowed<String> window) {
    return window.key() + " " + window.window().start();
  }

  public static void main(String[] arguments) throws InterruptedException {
    Map<String, String> environment = System.getenv();
    String group = environment.get("GROUP");
    Set<String> tables = Set.of(environment.get("TABLES").split(","));
    Duration grace = Duration.ofMillis(Long.parseLong(environment.get("GRACE")));
    boolean versioned = Boolean.parseBoolean(environment.get("VERSIONED"));
    Properties settings = new Properties();
    settings.put("bootstrap.servers", environment.get("BROKER"));
    settings.put("application.id", group);
    settings.put("state.dir", environment.get("DATADIR"));
    settings.put("processing.guarantee", "exactly_once_v2");
    settings.put("auto.offset.reset", "earliest");
    settings.put("num.stream.threads", environment.getOrDefault("THREADS", "1"));
    settings.put("replication.factor", "1");
    settings.put("topology.optimization", "all");
    settings.put("statestore.cache.max.bytes", 64 << 20);
    settings.put("max.task.idle.ms", environment.get("IDLE"));
    settings.put("producer.linger.ms", "20");
    settings.put("producer.batch.size", "262144");
    settings.put("max.poll.records", "5000");
    // All that a changelog was told stays in it, to be counted.
    settings.put("topic.retention.ms", "-1");
    settings.put("topic.min.compaction.lag.ms", Long.toString(Long.MAX_VALUE));

    Serde<Move> moves = json(Move.class);
    StreamsBuilder builder = new StreamsBuilder();
    KStream<String, Move> out =
        builder.stream(
                environment.get("INPUT"),
                Consumed.with(Serdes.String(), moves))
            .filter((tail, move) -> move.kind().equals("OUT"));
    if (tables.contains("aircraft_day")) {
      out.groupByKey(Grouped.with(Serdes.String(), moves))
          .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofDays(1), grace))
          .count(Materialized.as("aircraft_day"))
          .toStream((window, count) -> keyed(window))
          .to(group + ".aircraft_day", Produced.with(Serdes.String(), json(Long.class)));
    }
    if (tables.contains("airport_hour") || tables.contains("flown")) {
      KStream<String, Move> airports =
          out.selectKey((tail, move) -> move.origin())
              .repartition(
                  Repartitioned.with(Serdes.String(), moves)
                      .withName("airports")
                      .withNumberOfPartitions(Integer.parseInt(environment.get("PARTITIONS"))));
      if (tables.contains("airport_hour")) {
        airports
            .groupByKey(Grouped.with(Serdes.String(), moves))
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofHours(1), grace))
            .aggregate(
                () -> new Mean(0, 0),
                (origin, move, mean) -> mean.add(move),
                Materialized.<String, Mean, WindowStore<Bytes, byte[]>>
                    as("airport_hour")
                    .withKeySerde(Serdes.String())
                    .withValueSerde(json(Mean.class)))
            .toStream((window, mean) -> keyed(window))
            .mapValues(mean -> (double) mean.sum() / mean.count())
            .to(group + ".airport_hour", Produced.with(Serdes.String(), json(Double.class)));
      }
      if (tables.contains("flown")) {
        Consumed<String, Report> reports = Consumed.with(Serdes.String(), json(Report.class));
        KTable<String, Report> weather =
            versioned
                ? builder.table(
                    environment.get("WEATHER"),
                    reports,
                    Materialized.as(Stores.persistentVersionedKeyValueStore("weather", HISTORY)))
                : builder.table(environment.get("WEATHER"), reports, Materialized.as("weather"));
        Joined<String, Move, Report> joined =
            Joined.with(Serdes.String(), moves, json(Report.class), "flown");
        airports
            .leftJoin(
                weather,
                (move, report) ->
                    new Flown(
                        move.tail(),
                        move.number(),
                        report == null ? null : report.time(),
                        report == null ? null : report.wind_speed()),
                versioned && !grace.isZero() ? joined.withGracePeriod(grace) : joined)
            .selectKey((origin, flown) -> flown.tail() + " " + flown.number())
            .to(group + ".flown", Produced.with(Serdes.String(), json(Flown.class)));
      }
    }
    KafkaStreams streams = new KafkaStreams(builder.build(settings), settings);
    streams.setUncaughtExceptionHandler(
        error -> {
          error.printStackTrace();
          Runtime.getRuntime().halt(1);
          return null;
        });
    streams.start();
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    new CountDownLatch(1).await();
  }
}
