// Writes records with every codec, reads them back, and prints results: one `name=value` per line.
// Usage: java Records.java BOOTSTRAP TOPIC   (an existing topic with one partition)

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
    static TopicPartition partition;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        partition = new TopicPartition(arguments[1], 0);
        List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>();
        for (CompressionType codec : CompressionType.values()) {
            List<ProducerRecord<byte[], byte[]>> batch = batch(codec.name, sent.size());
            print("offsets." + codec.name, produce(codec.name, batch, sent.size()));
            sent.addAll(batch);
        }
        readBack(sent);
        print("too.large", errorOf(new ProducerRecord<>(partition.topic(), new byte[2_000_000])));
    }

    /** Small records with keys, headers and timestamps, one with an empty value, a tombstone, and one of 1 MB. */
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
            List.of(new RecordHeader("number", bytes("" + number)), new RecordHeader("null", (byte[]) null));
        return new ProducerRecord<>(partition.topic(), 0, FIRST_TIMESTAMP + number, key, value, headers);
    }

    /** Returns whether the acknowledged offsets are exactly the next ones. */
    static boolean produce(String codec, List<ProducerRecord<byte[], byte[]>> records, long next) throws Exception {
        List<java.util.concurrent.Future<RecordMetadata>> futures = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("compression.type", codec))) {
            records.forEach(record -> futures.add(producer.send(record)));
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
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            List<ConsumerRecord<byte[], byte[]>> read = new ArrayList<>();
            long deadline = System.nanoTime() + 60_000_000_000L;
            while (read.size() < sent.size() && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(500)).records(partition).forEach(read::add);
            }
            print("read", read.size());
            int same = 0;
            for (int i = 0; i < read.size(); i++) {
                same += same(sent.get(i), read.get(i), i) ? 1 : 0;
            }
            print("same", same);
            print("sent", sent.size());
            print("beginning", consumer.beginningOffsets(List.of(partition)).get(partition));
            print("end", consumer.endOffsets(List.of(partition)).get(partition));
            print("at.time", consumer.offsetsForTimes(Map.of(partition, FIRST_TIMESTAMP + 300)).get(partition).offset());
            print("partitions", consumer.partitionsFor(partition.topic()).size());
        }
    }

    static boolean same(ProducerRecord<byte[], byte[]> sent, ConsumerRecord<byte[], byte[]> read, long offset) {
        return read.offset() == offset && read.leaderEpoch().isPresent() && read.timestamp() == sent.timestamp()
            && Arrays.equals(read.key(), sent.key()) && Arrays.equals(read.value(), sent.value())
            && Arrays.equals(read.headers().toArray(), sent.headers().toArray());
    }

    static String errorOf(ProducerRecord<byte[], byte[]> record) throws InterruptedException {
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("max.request.size", "4000000"))) {
            producer.send(record).get();
            return "none";
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
    }

    static KafkaProducer<byte[], byte[]> producer(Map<String, String> extra) {
        Properties settings = new Properties();
        settings.putAll(Map.of("bootstrap.servers", bootstrap, "enable.idempotence", "true", "acks", "all", "linger.ms", "20"));
        settings.putAll(extra);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void print(String name, Object value) {
        System.out.println(name + "=" + value);
    }
}
