// Writes and reads without a pause while somebody kills the leader. Prints `going` once both work, waits for a line on
// stdin that says the deed is done, goes on for MORE records, and says what it found: one `name=value` per line.
// A consumer on its own sees each record once; one in a group may see some again, as it goes on from what it committed.
// Usage: java Failover.java BOOTSTRAP TOPIC   (a topic with one partition that exists)

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
    static final int MORE = 500;
    static final long PATIENCE_NS = 120_000_000_000L;
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
        TopicPartition place = new TopicPartition(topic, 0);
        Thread alone = new Thread(() -> consume(read, consumer -> consumer.assign(List.of(place))));
        Thread member = new Thread(() -> consume(readByGroup, consumer -> consumer.subscribe(List.of(topic))));
        alone.start();
        member.start();
        int sent = produce();
        await("everything is read", () -> distinct(read).size() >= sent && distinct(readByGroup).size() >= sent);
        reading = false;
        alone.join();
        member.join();
        List<Integer> inOrder = distinct(read);
        say("sent", sent);
        say("acknowledged", acknowledged);
        say("failed", failed);
        say("read", read.size());
        say("complete", inOrder.size() == sent && inOrder.get(0) == 0 && inOrder.get(sent - 1) == sent - 1);
        say("in.order.once", List.copyOf(read).equals(inOrder));
        say("same.by.group", distinct(readByGroup).equals(inOrder));
        say("longest.gap.ms", longestGap.get() / 1_000_000);
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
            System.out.println("going");
            while (System.in.available() == 0) {
                send(producer, sent++);
            }
            for (int i = 0; i < MORE; i++) {
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
            long before = lastAcknowledged.getAndSet(now);
            longestGap.accumulateAndGet(before == 0 ? 0 : now - before, Math::max);
        });
        Thread.sleep(1);
    }

    static void consume(List<Integer> into, Consumer<KafkaConsumer<String, String>> from) {
        Properties settings = new Properties();
        settings.putAll(Map.of("bootstrap.servers", bootstrap, "group.id", "failover", "auto.offset.reset", "earliest",
            "reconnect.backoff.ms", "20", "retry.backoff.ms", "20"));
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            from.accept(consumer);
            while (reading) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> into.add(Integer.parseInt(record.value())));
            }
        }
    }

    static void await(String what, BooleanSupplier condition) throws InterruptedException {
        long deadline = System.nanoTime() + PATIENCE_NS;
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                say("still.not", what);
                System.exit(1);
            }
            Thread.sleep(10);
        }
    }

    static void say(String name, Object value) {
        System.out.println(name + "=" + value);
    }
}
