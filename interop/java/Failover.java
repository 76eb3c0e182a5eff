// Writes and reads without a pause while the test kills the leader. Prints `running` once both work, continues until
// there is a line on stdin and then for RECORDS_AFTER records, and prints results: one `name=value` per line.
// A consumer without a group reads each record once; one in a group may read some again, from its last commit on.
// Usage: java Failover.java BOOTSTRAP TOPIC   (an existing topic with one partition)

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Failover {
    static final int RECORDS_AFTER = 500;
    static final long TIMEOUT_NS = 120_000_000_000L;
    static String bootstrap;
    static String topic;
    static final AtomicInteger acknowledged = new AtomicInteger();
    static final AtomicInteger failed = new AtomicInteger();
    static final AtomicLong lastAcknowledged = new AtomicLong();
    static final AtomicLong longestGap = new AtomicLong();
    static final List<Integer> read = Collections.synchronizedList(new ArrayList<>());
    static final List<Integer> readByGroup = Collections.synchronizedList(new ArrayList<>());
    static volatile boolean reading = true;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[1];
        TopicPartition partition = new TopicPartition(topic, 0);
        Thread alone = new Thread(() -> consume(read, consumer -> consumer.assign(List.of(partition))));
        Thread member = new Thread(() -> consume(readByGroup, consumer -> consumer.subscribe(List.of(topic))));
        alone.start();
        member.start();
        int sent = produce();
        await("all records are read", () -> distinct(read).size() >= sent && distinct(readByGroup).size() >= sent);
        reading = false;
        alone.join();
        member.join();
        List<Integer> inOrder = distinct(read);
        print("sent", sent);
        print("acknowledged", acknowledged);
        print("failed", failed);
        print("read", read.size());
        print("complete", inOrder.size() == sent && inOrder.get(0) == 0 && inOrder.get(sent - 1) == sent - 1);
        print("in.order.once", List.copyOf(read).equals(inOrder));
        print("same.by.group", distinct(readByGroup).equals(inOrder));
        print("longest.gap.ms", longestGap.get() / 1_000_000);
    }

    static List<Integer> distinct(List<Integer> numbers) {
        synchronized (numbers) {
            return List.copyOf(new TreeSet<>(numbers));
        }
    }

    static int produce() throws Exception {
        Properties settings = new Properties();
        settings.putAll(Map.of("bootstrap.servers", bootstrap, "enable.idempotence", "true", "acks", "all",
            "delivery.timeout.ms", "120000", "retry.backoff.ms", "20", "reconnect.backoff.ms", "20"));
        int sent = 0;
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            while (acknowledged.get() < 100 || read.isEmpty() || readByGroup.isEmpty()) {
                send(producer, sent++);
            }
            System.out.println("running");
            while (System.in.available() == 0) {
                send(producer, sent++);
            }
            for (int i = 0; i < RECORDS_AFTER; i++) {
                send(producer, sent++);
            }
        }
        return sent;
    }

    static void send(KafkaProducer<String, String> producer, int number) throws InterruptedException {
        producer.send(new ProducerRecord<>(topic, 0, null, "" + number), (metadata, error) -> {
            if (error != null) {
                failed.incrementAndGet();
                return;
            }
            acknowledged.incrementAndGet();
            long now = System.nanoTime();
            long previous = lastAcknowledged.getAndSet(now);
            longestGap.accumulateAndGet(previous == 0 ? 0 : now - previous, Math::max);
        });
        Thread.sleep(1);
    }

    static void consume(List<Integer> numbers, Consumer<KafkaConsumer<String, String>> start) {
        Properties settings = new Properties();
        settings.putAll(Map.of("bootstrap.servers", bootstrap, "group.id", "failover", "auto.offset.reset", "earliest",
            "reconnect.backoff.ms", "20", "retry.backoff.ms", "20"));
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            start.accept(consumer);
            while (reading) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> numbers.add(Integer.parseInt(record.value())));
            }
        }
    }

    static void await(String description, BooleanSupplier condition) throws InterruptedException {
        long deadline = System.nanoTime() + TIMEOUT_NS;
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                print("timed.out", description);
                System.exit(1);
            }
            Thread.sleep(10);
        }
    }

    static void print(String name, Object value) {
        System.out.println(name + "=" + value);
    }
}
