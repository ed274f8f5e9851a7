import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Flink doing the ordering job: state on the heap, a transactional sink.
 *
 * <p>Besides the variables of every peer: CHECKPOINT, the milliseconds between two checkpoints,
 * nothing is visible before one; SLOTS, one unless told otherwise.
 */
public final class ResequenceFlink {
  private static final JsonFactory JSON = new JsonFactory();
  private static final TypeInformation<byte[]> BYTES =
      PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
  private static final TypeInformation<Tuple2<String, byte[]>> KEYED =
      Types.TUPLE(Types.STRING, BYTES);

  /** Puts a stream's events in sequence and passes each on once. */
  private static final class InSequence
      extends KeyedProcessFunction<String, Tuple2<String, byte[]>, Tuple2<String, byte[]>> {
    private transient ValueState<Long> progress;
    private transient MapState<Long, byte[]> waiting;

    @Override
    public void open(OpenContext context) {
      progress = getRuntimeContext().getState(new ValueStateDescriptor<>("progress", Types.LONG));
      waiting =
          getRuntimeContext().getMapState(new MapStateDescriptor<>("waiting", Types.LONG, BYTES));
    }

    @Override
    public void processElement(
        Tuple2<String, byte[]> event, Context context, Collector<Tuple2<String, byte[]>> out)
        throws Exception {
      long sequence = sequenceOf(event.f1);
      Long stored = progress.value();
      long last = stored == null ? 0 : stored;
      if (sequence <= last) {
        return;
      }
      if (sequence != last + 1) {
        if (!waiting.contains(sequence)) {
          waiting.put(sequence, event.f1);
        }
        return;
      }
      out.collect(event);
      last = sequence;
      byte[] value;
      while ((value = waiting.get(last + 1)) != null) {
        waiting.remove(++last);
        out.collect(Tuple2.of(event.f0, value));
      }
      progress.update(last);
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

  /** Key and value of a record. */
  private static final class Whole
      implements KafkaRecordDeserializationSchema<Tuple2<String, byte[]>> {
    @Override
    public void deserialize(
        ConsumerRecord<byte[], byte[]> record, Collector<Tuple2<String, byte[]>> out) {
      out.collect(Tuple2.of(new String(record.key(), StandardCharsets.UTF_8), record.value()));
    }

    @Override
    public TypeInformation<Tuple2<String, byte[]>> getProducedType() {
      return KEYED;
    }
  }

  public static void main(String[] arguments) throws Exception {
    Map<String, String> environment = System.getenv();
    boolean once = environment.get("GUARANTEE").equals("exactly_once");
    String broker = environment.get("BROKER");
    String group = environment.get("GROUP");
    String output = environment.get("OUTPUT");

    Configuration settings = new Configuration();
    settings.setString("state.backend.type", "hashmap");
    settings.setString("execution.checkpointing.storage", "filesystem");
    settings.setString(
        "execution.checkpointing.dir", "file://" + environment.get("DATADIR") + "/checkpoints");
    settings.setString(
        "execution.checkpointing.interval",
        environment.getOrDefault("CHECKPOINT", "500") + "ms");
    settings.setString("pipeline.object-reuse", "true");
    settings.setString("rest.port", "0");
    StreamExecutionEnvironment streams =
        StreamExecutionEnvironment.createLocalEnvironment(
            Integer.parseInt(environment.getOrDefault("SLOTS", "1")), settings);

    KafkaSource<Tuple2<String, byte[]>> source =
        KafkaSource.<Tuple2<String, byte[]>>builder()
            .setBootstrapServers(broker)
            .setTopics(environment.get("INPUT"))
            .setGroupId(group)
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setProperty("max.poll.records", "5000")
            .setProperty("isolation.level", "read_committed")
            .setDeserializer(new Whole())
            .build();
    var sink =
        KafkaSink.<Tuple2<String, byte[]>>builder()
            .setBootstrapServers(broker)
            .setDeliveryGuarantee(
                once ? DeliveryGuarantee.EXACTLY_ONCE : DeliveryGuarantee.AT_LEAST_ONCE)
            .setProperty("linger.ms", "20")
            .setProperty("batch.size", "262144")
            .setProperty("transaction.timeout.ms", "60000")
            .setRecordSerializer(
                (KafkaRecordSerializationSchema<Tuple2<String, byte[]>>)
                    (event, context, time) ->
                        new ProducerRecord<>(
                            output, event.f0.getBytes(StandardCharsets.UTF_8), event.f1));
    if (once) {
      sink.setTransactionalIdPrefix(group);
    }
    streams
        .fromSource(source, WatermarkStrategy.noWatermarks(), "input", KEYED)
        .keyBy(event -> event.f0, Types.STRING)
        .process(new InSequence(), KEYED)
        .sinkTo(sink.build());
    streams.execute();
  }
}
