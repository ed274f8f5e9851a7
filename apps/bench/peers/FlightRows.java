import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;

/** The three views of the flights: what becomes of a movement, as `sequitur.flights.topology`. */
final class FlightRows {
  static final ObjectMapper MAPPER = new ObjectMapper();
  static final String[] VIEWS = {"departure_board", "aircraft", "carrier_delay"};

  /** An aircraft's numbers by name: what a view remembers of it. */
  interface Numbers {
    long[] get(String name) throws Exception;

    void put(String name, long[] numbers) throws Exception;
  }

  /** A movement's aircraft, without reading more than it takes to find it. */
  static String tail(byte[] movement) throws IOException {
    try (JsonParser parser = MAPPER.createParser(movement)) {
      while (parser.nextToken() != null) {
        if (parser.currentToken() == JsonToken.FIELD_NAME && parser.currentName().equals("tail")) {
          return parser.nextTextValue();
        }
      }
    }
    throw new IOException("no tail");
  }

  /** The row change of a movement, or null where the view passes it by. */
  static byte[] row(String view, String tail, long sequence, JsonNode said, Numbers numbers)
      throws Exception {
    return switch (view) {
      case "departure_board" -> board(tail, sequence, said);
      case "aircraft" -> aircraft(tail, sequence, said, numbers);
      default ->
          said.get("kind").textValue().equals("OUT")
              ? delay(tail, sequence, said, numbers)
              : null;
    };
  }

  private static byte[] board(String tail, long sequence, JsonNode said) throws IOException {
    ObjectNode output = output("departure_board", tail, sequence);
    ObjectNode change = change(output, "departure_board");
    change.putObject("key").set("flight_id", said.get("flight_id"));
    ObjectNode values = change.putObject("values");
    values.put("tail", tail);
    for (String name : new String[] {"carrier", "flight", "origin", "dest"}) {
      values.set(name, said.get(name));
    }
    values.set("status", said.get("kind"));
    values.set("scheduled_out", said.get("scheduled_out"));
    values.set("actual_out", said.get("out"));
    values.set("departure_delay", said.get("dep_delay"));
    values.set("scheduled_in", said.get("scheduled_in"));
    values.set("actual_in", said.get("in"));
    values.set("arrival_delay", said.get("arr_delay"));
    return MAPPER.writeValueAsBytes(output);
  }

  private static byte[] aircraft(String tail, long sequence, JsonNode said, Numbers numbers)
      throws Exception {
    boolean landed = said.get("kind").textValue().equals("IN");
    long[] before = numbers.get("");
    long[] now = before == null ? new long[3] : before.clone();
    now[0]++;
    now[1] += landed ? 1 : 0;
    now[2] += said.get("air_time").asLong(0);
    numbers.put("", now);
    ObjectNode output = output("aircraft", tail, sequence);
    ObjectNode change = change(output, "aircraft");
    change.putObject("key").put("tail", tail);
    ObjectNode values = change.putObject("values");
    values.put("messages", now[0]).put("legs", now[1]).put("minutes_in_air", now[2]);
    values.set("last_airport", said.get(landed ? "dest" : "origin"));
    values.set("last_movement", said.get("kind"));
    values.set("last_time", said.get("time"));
    values.put("last_number", sequence);
    return MAPPER.writeValueAsBytes(output);
  }

  private static byte[] delay(String tail, long sequence, JsonNode said, Numbers numbers)
      throws Exception {
    String carrier = said.get("carrier").textValue();
    long delay = said.get("dep_delay").longValue();
    long[] before = numbers.get(carrier);
    long[] now = before == null ? new long[] {0, 0, delay} : before.clone();
    now[0]++;
    now[1] += delay;
    now[2] = Math.max(now[2], delay);
    numbers.put(carrier, now);
    ObjectNode output = output("carrier_delay", tail, sequence);
    ObjectNode change = change(output, "carrier_delay");
    change.putObject("key").put("carrier", carrier).put("tail", tail);
    ObjectNode values = change.putObject("values");
    values.put("flights", now[0]).put("delay_minutes", now[1]).put("worst_delay", now[2]);
    return MAPPER.writeValueAsBytes(output);
  }

  private static ObjectNode output(String view, String tail, long sequence) {
    ObjectNode output = MAPPER.createObjectNode();
    return output.put("view", view).put("stream", tail).put("sequence", sequence);
  }

  private static ObjectNode change(ObjectNode output, String table) {
    ObjectNode change = output.putArray("changes").addObject();
    return change.put("op", "upsert").put("table", table);
  }

  private FlightRows() {}
}
