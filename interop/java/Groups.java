// Two members rebalance cooperatively, a static member restarts, and an admin client changes the groups' offsets.
// Prints results: one `name=value` per line.
// Usage: java Groups.java BOOTSTRAP TOPIC   (an existing, empty topic with six partitions)

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Groups {
    static final int PARTITIONS = 6;
    static final int RECORDS = 60;
    static String bootstrap;
    static String topic;
    static final Set<String> readValues = new ConcurrentSkipListSet<>();

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[1];
        produce();
        cooperate();
        restartStaticMember();
        administer();
    }

    static void produce() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < RECORDS; i++) {
                producer.send(new ProducerRecord<>(topic, i % PARTITIONS, "k", "v" + i));
            }
        }
    }

    /** The second member gets half of the partitions; the first keeps reading the others. */
    static void cooperate() throws Exception {
        Member first = new Member("cooperative", Map.of());
        await("the first member has all partitions", () -> first.assigned().size() == PARTITIONS);
        Set<TopicPartition> before = Set.copyOf(first.assigned());
        await("all records are read", () -> readValues.size() == RECORDS);
        Member second = new Member("cooperative", Map.of());
        await("both members have half", () -> first.assigned().size() == 3 && second.assigned().size() == 3);
        print("first.revoked", first.revoked.size());
        print("first.kept", before.containsAll(first.assigned()));
        print("disjoint", first.assigned().stream().noneMatch(second.assigned()::contains));
        ConsumerGroupDescription group = describe("cooperative");
        print("state", group.groupState());
        print("assignor", group.partitionAssignor());
        print("members", group.members().size());
        second.close();
        await("the first member has all partitions again", () -> first.assigned().size() == PARTITIONS);
        print("lost", first.lost.size() + second.lost.size());
        first.close();
        print("read", readValues.size());
    }

    /** A static member that returns within its session gets its partitions back, without a rebalance. */
    static void restartStaticMember() throws Exception {
        Member steady = new Member("static", Map.of("group.instance.id", "steady"));
        Member restarted = new Member("static", Map.of("group.instance.id", "restarted"));
        await("both members have half, in one generation", () -> steady.assigned().size() == 3 && restarted.assigned().size() == 3
            && steady.generation() == restarted.generation());
        Set<TopicPartition> before = Set.copyOf(restarted.assigned());
        int generation = steady.generation();
        restarted.close();
        Member returned = new Member("static", Map.of("group.instance.id", "restarted"));
        await("the member has returned", () -> returned.assigned().size() == 3 && returned.generation() >= generation);
        print("static.same", before.equals(returned.assigned()));
        print("static.rebalances", returned.generation() - generation);
        steady.close();
        returned.close();
        try (Admin admin = admin()) {
            print("static.members", describe("static").members().size());
            admin.removeMembersFromConsumerGroup("static",
                new org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions()).all().get();
            print("static.removed", describe("static").members().size());
        }
    }

    static void administer() throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (Admin admin = admin()) {
            Map<TopicPartition, OffsetAndMetadata> offsets =
                admin.listConsumerGroupOffsets("cooperative").partitionsToOffsetAndMetadata().get();
            print("committed", offsets.values().stream().mapToLong(OffsetAndMetadata::offset).sum());
            admin.alterConsumerGroupOffsets("cooperative", Map.of(partition, new OffsetAndMetadata(3, "note"))).all().get();
            OffsetAndMetadata altered =
                admin.listConsumerGroupOffsets("cooperative").partitionsToOffsetAndMetadata().get().get(partition);
            print("altered", altered.offset() + " " + altered.metadata());
            admin.deleteConsumerGroupOffsets("cooperative", Set.of(partition)).all().get();
            print("left", admin.listConsumerGroupOffsets("cooperative").partitionsToOffsetAndMetadata().get().size());
            admin.deleteConsumerGroups(List.of("cooperative", "static")).all().get();
            print("groups", admin.listGroups().all().get().stream()
                .map(listing -> listing.groupId()).filter(Set.of("cooperative", "static")::contains).count());
        }
    }

    static ConsumerGroupDescription describe(String group) throws Exception {
        try (Admin admin = admin()) {
            return admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        }
    }

    static Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    static void await(String description, BooleanSupplier condition) throws InterruptedException {
        long deadline = System.nanoTime() + 60_000_000_000L;
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

    /** A consumer in a thread of its own that records its assignment, and the partitions that were revoked or lost. */
    static class Member implements ConsumerRebalanceListener {
        final Set<TopicPartition> revoked = java.util.concurrent.ConcurrentHashMap.newKeySet();
        final Set<TopicPartition> lost = java.util.concurrent.ConcurrentHashMap.newKeySet();
        private volatile Assignment assignment = new Assignment(Set.of(), -1);
        private volatile boolean running = true;
        private final Thread thread;

        Member(String group, Map<String, String> extra) {
            Properties settings = new Properties();
            settings.putAll(Map.of("bootstrap.servers", bootstrap, "group.id", group, "auto.offset.reset", "earliest",
                "partition.assignment.strategy", CooperativeStickyAssignor.class.getName(),
                "heartbeat.interval.ms", "200"));
            settings.putAll(extra);
            KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
            thread = new Thread(() -> run(consumer));
            thread.start();
        }

        private void run(KafkaConsumer<String, String> consumer) {
            try (consumer) {
                consumer.subscribe(List.of(topic), this);
                while (running) {
                    consumer.poll(Duration.ofMillis(100)).forEach(record -> readValues.add(record.value()));
                    assignment = new Assignment(Set.copyOf(consumer.assignment()), consumer.groupMetadata().generationId());
                }
            }
        }

        void close() throws InterruptedException {
            running = false;
            thread.join();
        }

        Set<TopicPartition> assigned() {
            return assignment.assigned;
        }

        int generation() {
            return assignment.generation;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            if (running) {
                revoked.addAll(partitions);
            }
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            lost.addAll(partitions);
        }
    }

    /** What a member had at the end of a poll. */
    record Assignment(Set<TopicPartition> assigned, int generation) {
    }
}
