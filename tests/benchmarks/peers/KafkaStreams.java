// Kafka Streams with exactly-once, and Jackson for JSON.
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;

public class KafkaStreams {
    static final ObjectMapper JSON = new ObjectMapper();

    static byte[] masked(byte[] value) {
        try {
            ObjectNode event = (ObjectNode) JSON.readTree(value);
            ((ObjectNode) event.at("/diagnoses/principal")).put("code", "masked");
            return JSON.writeValueAsBytes(event);
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    public static void main(String[] arguments) throws Exception {
        ObjectNode given = (ObjectNode) JSON.readTree(arguments[0]);
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "kafka-streams");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, given.get("bootstrap").asText());
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, System.getProperty("java.io.tmpdir"));
        settings.put("auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.<byte[], byte[]>stream(given.get("source").asText())
            .mapValues(KafkaStreams::masked)
            .to(given.get("target").asText());
        new org.apache.kafka.streams.KafkaStreams(builder.build(), settings).start();
    }
}
