import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * Kafka Streams on the flights: re-keyed by aircraft, put in sequence and handled by three
 * processors, each with stores of its own. View V's rows go to the topic `GROUP.V`.
 *
 * <p>Besides the variables of every peer: CACHE, bytes of the stores' caches, none where it is 0;
 * THREADS, one unless told otherwise.
 */
public final class Flights {
  private static final TypeReference<HashMap<String, long[]>> NUMBERS = new TypeReference<>() {};

  /** A movement, read once for all views, and its bytes. */
  private record Movement(JsonNode said, byte[] bytes) {}

  /** One view: progress and numbers are one row of an aircraft, what waits is a row each. */
  private static final class View
      implements ProcessorSupplier<String, Movement, String, byte[]> {
    private final String view;
    private final boolean cached;

    View(String view, boolean cached) {
      this.view = view;
      this.cached = cached;
    }

    @Override
    public Set<StoreBuilder<?>> stores() {
      Serde<byte[]> bytes = Serdes.ByteArray();
      var progress =
          Stores.keyValueStoreBuilder(
              Stores.persistentKeyValueStore(view + "-progress"), Serdes.String(), bytes);
      var waiting =
          Stores.keyValueStoreBuilder(
              Stores.persistentKeyValueStore(view + "-waiting"), bytes, bytes);
      return cached
          ? Set.of(progress.withCachingEnabled(), waiting.withCachingEnabled())
          : Set.of(progress, waiting);
    }

    @Override
    public Processor<String, Movement, String, byte[]> get() {
      return new InSequence(view);
    }
  }

  private static final class InSequence implements Processor<String, Movement, String, byte[]> {
    private final String view;
    private ProcessorContext<String, byte[]> context;
    private KeyValueStore<String, byte[]> progress;
    private KeyValueStore<byte[], byte[]> waiting;

    InSequence(String view) {
      this.view = view;
    }

    @Override
    public void init(ProcessorContext<String, byte[]> given) {
      context = given;
      progress = context.getStateStore(view + "-progress");
      waiting = context.getStateStore(view + "-waiting");
    }

    @Override
    public void process(Record<String, Movement> record) {
      try {
        order(record);
      } catch (Exception error) {
        throw new IllegalStateException(error);
      }
    }

    private void order(Record<String, Movement> record) throws Exception {
      String tail = record.key();
      JsonNode said = record.value().said();
      long sequence = said.get("number").longValue();
      byte[] row = progress.get(tail);
      long last = row == null ? 0 : ByteBuffer.wrap(row).getLong();
      if (sequence <= last) {
        return;
      }
      if (sequence != last + 1) {
        waiting.putIfAbsent(slot(tail, sequence), record.value().bytes());
        return;
      }
      Map<String, long[]> known =
          row == null || row.length == 8
              ? new HashMap<>()
              : FlightRows.MAPPER.readValue(row, 8, row.length - 8, NUMBERS);
      FlightRows.Numbers numbers =
          new FlightRows.Numbers() {
            @Override
            public long[] get(String name) {
              return known.get(name);
            }

            @Override
            public void put(String name, long[] now) {
              known.put(name, now);
            }
          };
      handle(record, tail, sequence, said, numbers);
      last = sequence;
      byte[] slot = slot(tail, last + 1);
      byte[] value;
      while ((value = waiting.get(slot)) != null) {
        waiting.delete(slot);
        last++;
        handle(record, tail, last, FlightRows.MAPPER.readTree(value), numbers);
        slot = slot(tail, last + 1);
      }
      byte[] state = known.isEmpty() ? new byte[0] : FlightRows.MAPPER.writeValueAsBytes(known);
      progress.put(tail, ByteBuffer.allocate(8 + state.length).putLong(last).put(state).array());
    }

    private void handle(
        Record<String, Movement> record,
        String tail,
        long sequence,
        JsonNode said,
        FlightRows.Numbers numbers)
        throws Exception {
      byte[] out = FlightRows.row(view, tail, sequence, said, numbers);
      if (out != null) {
        context.forward(record.withValue(out));
      }
    }

    private static byte[] slot(String tail, long sequence) {
      byte[] key = tail.getBytes(java.nio.charset.StandardCharsets.UTF_8);
      return ByteBuffer.allocate(key.length + 9).put(key).put((byte) 0).putLong(sequence).array();
    }
  }

  private static String tailOf(byte[] value) {
    try {
      return FlightRows.tail(value);
    } catch (java.io.IOException error) {
      throw new java.io.UncheckedIOException(error);
    }
  }

  private static Movement read(byte[] value) {
    try {
      return new Movement(FlightRows.MAPPER.readTree(value), value);
    } catch (java.io.IOException error) {
      throw new java.io.UncheckedIOException(error);
    }
  }

  public static void main(String[] arguments) throws InterruptedException {
    Map<String, String> environment = System.getenv();
    String group = environment.get("GROUP");
    int cache = Integer.parseInt(environment.getOrDefault("CACHE", "0"));
    Properties settings = new Properties();
    settings.put("bootstrap.servers", environment.get("BROKER"));
    settings.put("application.id", group);
    settings.put("state.dir", environment.get("DATADIR"));
    settings.put("processing.guarantee", "exactly_once_v2");
    settings.put("auto.offset.reset", "earliest");
    settings.put("num.stream.threads", environment.getOrDefault("THREADS", "1"));
    settings.put("replication.factor", "1");
    settings.put("topology.optimization", "all");
    settings.put("statestore.cache.max.bytes", cache);
    settings.put("producer.linger.ms", "20");
    settings.put("producer.batch.size", "262144");
    settings.put("max.poll.records", "5000");

    StreamsBuilder builder = new StreamsBuilder();
    KStream<String, Movement> movements =
        builder.stream(
                environment.get("INPUT"), Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
            .selectKey((station, value) -> tailOf(value))
            .repartition(
                Repartitioned.with(Serdes.String(), Serdes.ByteArray())
                    .withName("by-aircraft")
                    .withNumberOfPartitions(Integer.parseInt(environment.get("PARTITIONS"))))
            .mapValues(Flights::read);
    for (String view : FlightRows.VIEWS) {
      movements
          .process(new View(view, cache > 0))
          .to(group + "." + view, Produced.with(Serdes.String(), Serdes.ByteArray()));
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
