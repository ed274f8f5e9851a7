import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Kafka Streams doing the ordering job: a processor with two RocksDB stores, both with a changelog.
 *
 * <p>Besides the variables of every peer: HANDLER is `identity` (default: the bytes as they came)
 * or `upsert` (decode each event by Jackson and write one row change of view VIEW); THREADS;
 * CACHE, bytes of the stores' caches, which they have only where it is more than 0; COMMIT, ms
 * between two commits (default: its own); LINGER, of its producer, ms.
 */
public final class Resequence {
  private static final JsonFactory JSON = new JsonFactory();
  private static final ObjectMapper MAPPER = new ObjectMapper();

  /** Puts a stream's events in sequence and passes each on once. */
  private abstract static class InSequence implements Processor<byte[], byte[], byte[], byte[]> {
    protected ProcessorContext<byte[], byte[]> context;
    private KeyValueStore<byte[], Long> progress;
    private KeyValueStore<byte[], byte[]> waiting;

    @Override
    public void init(ProcessorContext<byte[], byte[]> given) {
      context = given;
      progress = context.getStateStore("progress");
      waiting = context.getStateStore("waiting");
    }

    protected void order(Record<byte[], byte[]> record, long sequence) throws IOException {
      byte[] key = record.key();
      Long stored = progress.get(key);
      long last = stored == null ? 0 : stored;
      if (sequence <= last) {
        return;
      }
      if (sequence != last + 1) {
        waiting.putIfAbsent(slot(key, sequence), record.value());
        return;
      }
      handle(record, sequence);
      last = sequence;
      byte[] slot = slot(key, last + 1);
      byte[] value;
      while ((value = waiting.get(slot)) != null) {
        waiting.delete(slot);
        last++;
        drained(record.withValue(value), last);
        slot = slot(key, last + 1);
      }
      progress.put(key, last);
    }

    /** The record that has just come is next in its stream. */
    protected abstract void handle(Record<byte[], byte[]> record, long sequence) throws IOException;

    /** A record that had waited is next in its stream. */
    protected abstract void drained(Record<byte[], byte[]> record, long sequence)
        throws IOException;

    private static byte[] slot(byte[] key, long sequence) {
      return ByteBuffer.allocate(key.length + 9).put(key).put((byte) 0).putLong(sequence).array();
    }
  }

  /** Reads no more of an event than its sequence, and passes its bytes on. */
  private static final class Identity extends InSequence {
    @Override
    public void process(Record<byte[], byte[]> record) {
      try {
        order(record, sequenceOf(record.value()));
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }

    @Override
    protected void handle(Record<byte[], byte[]> record, long sequence) {
      context.forward(record);
    }

    @Override
    protected void drained(Record<byte[], byte[]> record, long sequence) {
      context.forward(record);
    }

    private static long sequenceOf(byte[] value) throws IOException {
      try (JsonParser parser = JSON.createParser(value)) {
        while (parser.nextToken() != null) {
          if (parser.currentToken() == JsonToken.FIELD_NAME && parser.currentName().equals("seq")) {
            parser.nextToken();
            return parser.getLongValue();
          }
        }
      }
      throw new IOException("no seq");
    }
  }

  /** Decodes each event once where it can, and writes one row change for it. */
  private static final class Upsert extends InSequence {
    private final String view = System.getenv().getOrDefault("VIEW", "orders");
    private JsonNode content;

    @Override
    public void process(Record<byte[], byte[]> record) {
      try {
        content = MAPPER.readTree(record.value());
        order(record, content.get("seq").longValue());
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }

    @Override
    protected void handle(Record<byte[], byte[]> record, long sequence) throws IOException {
      write(record, sequence, content);
    }

    @Override
    protected void drained(Record<byte[], byte[]> record, long sequence) throws IOException {
      write(record, sequence, MAPPER.readTree(record.value()));
    }

    private void write(Record<byte[], byte[]> record, long sequence, JsonNode event)
        throws IOException {
      ObjectNode output = MAPPER.createObjectNode();
      output.put("view", view);
      output.put("stream", new String(record.key(), StandardCharsets.UTF_8));
      output.put("sequence", sequence);
      ObjectNode change = output.putArray("changes").addObject();
      change.put("op", "upsert");
      change.put("table", view);
      change.putObject("key").set("stream", event.get("stream"));
      ObjectNode values = change.putObject("values");
      values.set("seq", event.get("seq"));
      values.set("type", event.get("type"));
      values.set("amount", event.get("amount"));
      Headers headers = new RecordHeaders();
      headers.add("view", view.getBytes(StandardCharsets.UTF_8));
      headers.add("sequence", Long.toString(sequence).getBytes(StandardCharsets.UTF_8));
      byte[] value = MAPPER.writeValueAsBytes(output);
      context.forward(new Record<>(record.key(), value, record.timestamp(), headers));
    }
  }

  public static void main(String[] arguments) throws InterruptedException {
    Map<String, String> environment = System.getenv();
    boolean once = environment.get("GUARANTEE").equals("exactly_once");
    boolean upsert = environment.getOrDefault("HANDLER", "identity").equals("upsert");
    Properties settings = new Properties();
    settings.put("bootstrap.servers", environment.get("BROKER"));
    settings.put("application.id", environment.get("GROUP"));
    settings.put("state.dir", environment.get("DATADIR"));
    settings.put("processing.guarantee", once ? "exactly_once_v2" : "at_least_once");
    settings.put("auto.offset.reset", "earliest");
    settings.put("num.stream.threads", environment.getOrDefault("THREADS", "1"));
    settings.put("replication.factor", "1");
    settings.put("topology.optimization", "all");
    int cache = Integer.parseInt(environment.getOrDefault("CACHE", "0"));
    settings.put("statestore.cache.max.bytes", cache);
    if (environment.containsKey("COMMIT")) {
      settings.put("commit.interval.ms", environment.get("COMMIT"));
    }
    settings.put("producer.linger.ms", environment.getOrDefault("LINGER", "20"));
    settings.put("producer.batch.size", "262144");
    settings.put("max.poll.records", "5000");

    Topology topology = new Topology();
    topology.addSource(
        "source",
        new ByteArrayDeserializer(),
        new ByteArrayDeserializer(),
        environment.get("INPUT"));
    topology.addProcessor("in sequence", upsert ? Upsert::new : Identity::new, "source");
    var progress =
        Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore("progress"), Serdes.ByteArray(), Serdes.Long());
    var waiting =
        Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore("waiting"), Serdes.ByteArray(), Serdes.ByteArray());
    if (cache > 0) {
      progress.withCachingEnabled();
      waiting.withCachingEnabled();
    }
    topology.addStateStore(progress, "in sequence");
    topology.addStateStore(waiting, "in sequence");
    topology.addSink(
        "output",
        environment.get("OUTPUT"),
        new ByteArraySerializer(),
        new ByteArraySerializer(),
        "in sequence");

    KafkaStreams streams = new KafkaStreams(topology, settings);
    streams.start();
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    new CountDownLatch(1).await();
  }
}
