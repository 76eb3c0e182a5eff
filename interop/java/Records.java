// Writes with every codec, reads it back, and says on stdout what it found: one `name=value` per line.
// Usage: java Records.java BOOTSTRAP TOPIC   (a topic with one partition that exists)

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Records {
    static final int SMALL = 200;
    static final long FIRST_TIMESTAMP = 1_700_000_000_000L;
    static String bootstrap;
    static TopicPartition place;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        place = new TopicPartition(arguments[1], 0);
        List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>();
        for (CompressionType codec : CompressionType.values()) {
            List<ProducerRecord<byte[], byte[]>> batch = batch(codec.name, sent.size());
            say("offsets." + codec.name, produce(codec.name, batch, sent.size()));
            sent.addAll(batch);
        }
        readBack(sent);
        say("too.large", refusal(new ProducerRecord<>(place.topic(), new byte[2_000_000])));
    }

    /** Small records with keys, headers and times of their own, an empty one, a tombstone, and one of about 1 MB. */
    static List<ProducerRecord<byte[], byte[]>> batch(String codec, int first) {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int i = 0; i < SMALL; i++) {
            records.add(record(first + i, bytes(codec + "-" + i), bytes(codec + " value ".repeat(1 + i % 40))));
        }
        records.add(record(first + SMALL, null, new byte[0]));
        records.add(record(first + SMALL + 1, bytes(codec), null));
        byte[] noise = new byte[1_000_000];
        new Random(7).nextBytes(noise);
        records.add(record(first + SMALL + 2, bytes("big"), noise));
        return records;
    }

    static ProducerRecord<byte[], byte[]> record(int number, byte[] key, byte[] value) {
        List<org.apache.kafka.common.header.Header> headers =
            List.of(new RecordHeader("number", bytes("" + number)), new RecordHeader("nothing", (byte[]) null));
        return new ProducerRecord<>(place.topic(), 0, FIRST_TIMESTAMP + number, key, value, headers);
    }

    /** Whether the acknowledged offsets are exactly the next ones. */
    static boolean produce(String codec, List<ProducerRecord<byte[], byte[]>> records, long next) throws Exception {
        List<java.util.concurrent.Future<RecordMetadata>> futures = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("compression.type", codec))) {
            records.forEach(each -> futures.add(producer.send(each)));
        }
        boolean inOrder = true;
        for (java.util.concurrent.Future<RecordMetadata> future : futures) {
            inOrder &= future.get().offset() == next++;
        }
        return inOrder;
    }

    static void readBack(List<ProducerRecord<byte[], byte[]>> sent) {
        Properties settings = new Properties();
        settings.putAll(Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed"));
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            List<ConsumerRecord<byte[], byte[]>> seen = new ArrayList<>();
            long deadline = System.nanoTime() + 60_000_000_000L;
            while (seen.size() < sent.size() && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(500)).records(place).forEach(seen::add);
            }
            say("read", seen.size());
            int same = 0;
            for (int i = 0; i < seen.size(); i++) {
                same += same(sent.get(i), seen.get(i), i) ? 1 : 0;
            }
            say("same", same);
            say("sent", sent.size());
            say("beginning", consumer.beginningOffsets(List.of(place)).get(place));
            say("end", consumer.endOffsets(List.of(place)).get(place));
            say("at.time", consumer.offsetsForTimes(Map.of(place, FIRST_TIMESTAMP + 300)).get(place).offset());
            say("partitions", consumer.partitionsFor(place.topic()).size());
        }
    }

    static boolean same(ProducerRecord<byte[], byte[]> sent, ConsumerRecord<byte[], byte[]> seen, long offset) {
        return seen.offset() == offset && seen.leaderEpoch().isPresent() && seen.timestamp() == sent.timestamp()
            && Arrays.equals(seen.key(), sent.key()) && Arrays.equals(seen.value(), sent.value())
            && Arrays.equals(seen.headers().toArray(), sent.headers().toArray());
    }

    static String refusal(ProducerRecord<byte[], byte[]> record) throws InterruptedException {
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("max.request.size", "4000000"))) {
            producer.send(record).get();
            return "none";
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
    }

    static KafkaProducer<byte[], byte[]> producer(Map<String, String> more) {
        Properties settings = new Properties();
        settings.putAll(Map.of("bootstrap.servers", bootstrap, "enable.idempotence", "true", "acks", "all", "linger.ms", "20"));
        settings.putAll(more);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void say(String name, Object value) {
        System.out.println(name + "=" + value);
    }
}
