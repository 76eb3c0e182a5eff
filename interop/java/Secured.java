// Logs in with each of several files of client settings, writes a record, reads it back by a group, and describes the
// cluster. Says on stdout what came of it, one `file=result` per line.
// Usage: java Secured.java TOPIC FILE...   (a topic with one partition that exists; a file names its bootstrap.servers)

import java.io.FileInputStream;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Secured {
    static final Duration TIMEOUT = Duration.ofSeconds(60);

    public static void main(String[] arguments) throws Exception {
        for (int i = 1; i < arguments.length; i++) {
            String name = Path.of(arguments[i]).getFileName().toString();
            System.out.println(name + "=" + attempt(arguments[0], settings(arguments[i]), name));
        }
    }

    static String attempt(String topic, Map<String, Object> settings, String value) {
        try {
            int nodes = describe(settings);
            long offset = write(topic, settings, value);
            return nodes + " node, " + (read(topic, settings, value, offset) ? "read" : "lost");
        } catch (ExecutionException e) {
            return e.getCause().getClass().getSimpleName();
        } catch (Exception e) {
            return e.getClass().getSimpleName();
        }
    }

    static int describe(Map<String, Object> settings) throws Exception {
        try (Admin admin = Admin.create(settings)) {
            return admin.describeCluster().nodes().get().size();
        }
    }

    static long write(String topic, Map<String, Object> settings, String value) throws Exception {
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            return producer.send(new ProducerRecord<>(topic, value)).get().offset();
        }
    }

    static boolean read(String topic, Map<String, Object> settings, String value, long offset) {
        Map<String, Object> more = new HashMap<>(settings);
        more.putAll(Map.of("group.id", "readers", "auto.offset.reset", "earliest"));
        try (var consumer = new KafkaConsumer<>(more, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long end = System.nanoTime() + TIMEOUT.toNanos();
            while (System.nanoTime() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    if (record.offset() == offset) {
                        consumer.commitSync();
                        return record.value().equals(value);
                    }
                }
            }
            return false;
        }
    }

    static Map<String, Object> settings(String file) throws Exception {
        Properties loaded = new Properties();
        try (FileInputStream in = new FileInputStream(file)) {
            loaded.load(in);
        }
        Map<String, Object> settings = new HashMap<>();
        loaded.forEach((name, value) -> settings.put((String) name, value));
        return settings;
    }
}
