// Two consumers share a topic, cooperatively; then a static member is restarted; then the group is administered.
// Says on stdout what it found: one `name=value` per line.
// Usage: java Groups.java BOOTSTRAP TOPIC   (a topic with six partitions that exists; the program writes 60 records)

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
    static final Set<String> seen = new ConcurrentSkipListSet<>();

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

    /** The second member takes half of the partitions; the first never stops with the others. */
    static void cooperate() throws Exception {
        Member first = new Member("cooperative", Map.of());
        await("the first member has all", () -> first.held().size() == PARTITIONS);
        Set<TopicPartition> before = Set.copyOf(first.held());
        await("everything is read", () -> seen.size() == RECORDS);
        Member second = new Member("cooperative", Map.of());
        await("both have half", () -> first.held().size() == 3 && second.held().size() == 3);
        say("first.revoked", first.revoked.size());
        say("first.kept", before.containsAll(first.held()));
        say("disjoint", first.held().stream().noneMatch(second.held()::contains));
        ConsumerGroupDescription group = describe("cooperative");
        say("state", group.groupState());
        say("assignor", group.partitionAssignor());
        say("members", group.members().size());
        second.close();
        await("the first member has all again", () -> first.held().size() == PARTITIONS);
        say("lost", first.lost.size() + second.lost.size());
        first.close();
        say("read", seen.size());
    }

    /** A static member that comes back within its session gets what it had, and nobody rebalances. */
    static void restartStaticMember() throws Exception {
        Member steady = new Member("static", Map.of("group.instance.id", "steady"));
        Member restarted = new Member("static", Map.of("group.instance.id", "restarted"));
        await("both have half, in one generation", () -> steady.held().size() == 3 && restarted.held().size() == 3
            && steady.generation() == restarted.generation());
        Set<TopicPartition> had = Set.copyOf(restarted.held());
        int generation = steady.generation();
        restarted.close();
        Member again = new Member("static", Map.of("group.instance.id", "restarted"));
        await("it is back", () -> again.held().size() == 3 && again.generation() >= generation);
        say("static.same", had.equals(again.held()));
        say("static.rebalances", again.generation() - generation);
        steady.close();
        again.close();
        try (Admin admin = admin()) {
            say("static.members", describe("static").members().size());
            admin.removeMembersFromConsumerGroup("static",
                new org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions()).all().get();
            say("static.removed", describe("static").members().size());
        }
    }

    static void administer() throws Exception {
        TopicPartition place = new TopicPartition(topic, 0);
        try (Admin admin = admin()) {
            Map<TopicPartition, OffsetAndMetadata> offsets =
                admin.listConsumerGroupOffsets("cooperative").partitionsToOffsetAndMetadata().get();
            say("committed", offsets.values().stream().mapToLong(OffsetAndMetadata::offset).sum());
            admin.alterConsumerGroupOffsets("cooperative", Map.of(place, new OffsetAndMetadata(3, "moved"))).all().get();
            OffsetAndMetadata moved =
                admin.listConsumerGroupOffsets("cooperative").partitionsToOffsetAndMetadata().get().get(place);
            say("moved", moved.offset() + " " + moved.metadata());
            admin.deleteConsumerGroupOffsets("cooperative", Set.of(place)).all().get();
            say("left", admin.listConsumerGroupOffsets("cooperative").partitionsToOffsetAndMetadata().get().size());
            admin.deleteConsumerGroups(List.of("cooperative", "static")).all().get();
            say("groups", admin.listGroups().all().get().stream()
                .map(each -> each.groupId()).filter(Set.of("cooperative", "static")::contains).count());
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

    static void await(String what, BooleanSupplier condition) throws InterruptedException {
        long deadline = System.nanoTime() + 60_000_000_000L;
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

    /** A consumer in a thread of its own, which keeps book of what it is given and what is taken from it. */
    static class Member implements ConsumerRebalanceListener {
        final Set<TopicPartition> revoked = java.util.concurrent.ConcurrentHashMap.newKeySet();
        final Set<TopicPartition> lost = java.util.concurrent.ConcurrentHashMap.newKeySet();
        private volatile Standing standing = new Standing(Set.of(), -1);
        private volatile boolean running = true;
        private final Thread thread;

        Member(String group, Map<String, String> more) {
            Properties settings = new Properties();
            settings.putAll(Map.of("bootstrap.servers", bootstrap, "group.id", group, "auto.offset.reset", "earliest",
                "partition.assignment.strategy", CooperativeStickyAssignor.class.getName(),
                "heartbeat.interval.ms", "200"));
            settings.putAll(more);
            KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
            thread = new Thread(() -> run(consumer));
            thread.start();
        }

        private void run(KafkaConsumer<String, String> consumer) {
            try (consumer) {
                consumer.subscribe(List.of(topic), this);
                while (running) {
                    consumer.poll(Duration.ofMillis(100)).forEach(record -> seen.add(record.value()));
                    standing = new Standing(Set.copyOf(consumer.assignment()), consumer.groupMetadata().generationId());
                }
            }
        }

        void close() throws InterruptedException {
            running = false;
            thread.join();
        }

        Set<TopicPartition> held() {
            return standing.assigned;
        }

        int generation() {
            return standing.generation;
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

    /** What a member had when a poll had ended: both at the same time. */
    record Standing(Set<TopicPartition> assigned, int generation) {
    }
}
