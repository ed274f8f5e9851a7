import com.fasterxml.jackson.databind.JsonNode;
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
import org.apache.flink.streaming.api.datastream.DataStreamUtils;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Flink on the flights: keyed by aircraft, put in sequence and handled by three functions, with
 * state on the heap. View V's rows go to the topic `GROUP.V`.
 *
 * <p>Besides the variables of every peer: CHECKPOINT, the milliseconds between two checkpoints;
 * SLOTS, one unless told otherwise.
 */
public final class FlightsFlink {
  private static final TypeInformation<byte[]> BYTES =
      PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
  private static final TypeInformation<Tuple2<String, byte[]>> KEYED =
      Types.TUPLE(Types.STRING, BYTES);

  /** A movement, read once for all views, and its bytes; it never leaves its task. */
  private record Movement(String tail, JsonNode said, byte[] bytes) {}

  /** One view. */
  private static final class View
      extends KeyedProcessFunction<String, Movement, Tuple2<String, byte[]>> {
    private final String view;
    private transient ValueState<Long> progress;
    private transient MapState<Long, byte[]> waiting;
    private transient FlightRows.Numbers numbers;

    View(String view) {
      this.view = view;
    }

    @Override
    public void open(OpenContext context) {
      progress = getRuntimeContext().getState(new ValueStateDescriptor<>("progress", Types.LONG));
      waiting =
          getRuntimeContext().getMapState(new MapStateDescriptor<>("waiting", Types.LONG, BYTES));
      MapState<String, long[]> known =
          getRuntimeContext()
              .getMapState(
                  new MapStateDescriptor<>(
                      "numbers",
                      Types.STRING,
                      PrimitiveArrayTypeInfo.LONG_PRIMITIVE_ARRAY_TYPE_INFO));
      numbers =
          new FlightRows.Numbers() {
            @Override
            public long[] get(String name) throws Exception {
              return known.get(name);
            }

            @Override
            public void put(String name, long[] now) throws Exception {
              known.put(name, now);
            }
          };
    }

    @Override
    public void processElement(
        Movement event, Context context, Collector<Tuple2<String, byte[]>> out) throws Exception {
      long sequence = event.said().get("number").longValue();
      Long stored = progress.value();
      long last = stored == null ? 0 : stored;
      if (sequence <= last) {
        return;
      }
      if (sequence != last + 1) {
        if (!waiting.contains(sequence)) {
          waiting.put(sequence, event.bytes());
        }
        return;
      }
      handle(event.tail(), sequence, event.said(), out);
      last = sequence;
      byte[] value;
      while ((value = waiting.get(last + 1)) != null) {
        waiting.remove(++last);
        handle(event.tail(), last, FlightRows.MAPPER.readTree(value), out);
      }
      progress.update(last);
    }

    private void handle(
        String tail, long sequence, JsonNode said, Collector<Tuple2<String, byte[]>> out)
        throws Exception {
      byte[] row = FlightRows.row(view, tail, sequence, said, numbers);
      if (row != null) {
        out.collect(Tuple2.of(tail, row));
      }
    }
  }

  /** A movement by its aircraft. */
  private static final class ByAircraft
      implements KafkaRecordDeserializationSchema<Tuple2<String, byte[]>> {
    @Override
    public void deserialize(
        ConsumerRecord<byte[], byte[]> record, Collector<Tuple2<String, byte[]>> out)
        throws IOException {
      byte[] value = record.value();
      out.collect(Tuple2.of(FlightRows.tail(value), value));
    }

    @Override
    public TypeInformation<Tuple2<String, byte[]>> getProducedType() {
      return KEYED;
    }
  }

  private static KafkaSink<Tuple2<String, byte[]>> sink(String broker, String topic) {
    return KafkaSink.<Tuple2<String, byte[]>>builder()
        .setBootstrapServers(broker)
        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .setTransactionalIdPrefix(topic)
        .setProperty("linger.ms", "20")
        .setProperty("batch.size", "262144")
        .setProperty("transaction.timeout.ms", "60000")
        .setRecordSerializer(
            (KafkaRecordSerializationSchema<Tuple2<String, byte[]>>)
                (event, context, time) ->
                    new ProducerRecord<>(
                        topic, event.f0.getBytes(StandardCharsets.UTF_8), event.f1))
        .build();
  }

  public static void main(String[] arguments) throws Exception {
    Map<String, String> environment = System.getenv();
    String broker = environment.get("BROKER");
    String group = environment.get("GROUP");

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
            .setDeserializer(new ByAircraft())
            .build();
    var byAircraft =
        streams
            .fromSource(source, WatermarkStrategy.noWatermarks(), "input", KEYED)
            .keyBy(event -> event.f0, Types.STRING)
            .map(
                event -> new Movement(event.f0, FlightRows.MAPPER.readTree(event.f1), event.f1),
                Types.GENERIC(Movement.class));
    // Whoever is behind the map has the keys that came to it.
    var movements =
        DataStreamUtils.reinterpretAsKeyedStream(byAircraft, Movement::tail, Types.STRING);
    for (String view : FlightRows.VIEWS) {
      movements.process(new View(view), KEYED).sinkTo(sink(broker, group + "." + view));
    }
    streams.execute();
  }
}
