// Every call of the admin client that a cluster without security and transactions has an answer to.
// Says on stdout what it found: one `name=value` per line.
// Usage: java Administration.java BOOTSTRAP   (three brokers, 1, 2 and 3; a topic "administered" is made and deleted)

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeProducersResult;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringSerializer;

public class Administration {
    static final String TOPIC = "administered";
    static final TopicPartition FIRST = new TopicPartition(TOPIC, 0);
    static final long NOON = 1_700_000_000_000L;
    static String bootstrap;
    static Admin admin;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        try (Admin made = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin = made;
            cluster();
            topics();
            configs();
            records();
            replicas();
            deletion();
        }
    }

    static void cluster() throws Exception {
        say("brokers", admin.describeCluster().nodes().get().stream().map(Node::id).sorted().toList());
        say("cluster.id", admin.describeCluster().clusterId().get());
        say("controller.is.a.broker", admin.describeCluster().controller().get().id() > 0);
        QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
        say("voters", quorum.voters().stream().map(QuorumInfo.ReplicaState::replicaId).sorted().toList());
        say("quorum.leader.known", quorum.voters().stream().anyMatch(each -> each.replicaId() == quorum.leaderId()));
        say("voter.addresses", quorum.nodes().size());
        say("features", new TreeMap<>(admin.describeFeatures().featureMetadata().get().finalizedFeatures()).keySet());
    }

    static void topics() throws Exception {
        NewTopic topic = new NewTopic(TOPIC, Map.of(0, List.of(1, 2, 3), 1, List.of(2, 3, 1)))
            .configs(Map.of("min.insync.replicas", "2"));
        admin.createTopics(List.of(topic), new CreateTopicsOptions().validateOnly(true)).all().get();
        say("validated.only", admin.listTopics().names().get().contains(TOPIC));
        admin.createTopics(List.of(topic)).all().get();
        eventually(() -> admin.listTopics().names().get().contains(TOPIC));
        say("again", refusal(() -> admin.createTopics(List.of(topic)).all()));
        say("too.many.replicas", refusal(() -> admin.createTopics(List.of(new NewTopic("x", 1, (short) 9))).all()));
        admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(3, List.of(List.of(3, 1, 2))))).all().get();
        say("fewer.partitions",
            refusal(() -> admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(1))).all()));
        eventually(() -> describe().partitions().size() == 3);
        TopicDescription found = describe();
        say("partitions", found.partitions().stream().map(each -> ids(each.replicas())).toList());
        say("leaders", found.partitions().stream().map(each -> each.leader().id()).toList());
        say("in.sync", found.partitions().stream().allMatch(each -> each.isr().size() == 3));
        say("elr", found.partitions().get(0).elr());
        say("unknown.topic", refusal(() -> admin.describeTopics(List.of("nope")).allTopicNames()));
    }

    static void configs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
        set(topic, "retention.ms", "3600000");
        eventually(() -> config(topic, "retention.ms").value().equals("3600000"));
        say("retention", config(topic, "retention.ms").source());
        say("bad.value", refusal(() -> alter(topic, "retention.ms", "soon", AlterConfigOp.OpType.SET)));
        say("bad.name", refusal(() -> alter(topic, "no.such", "1", AlterConfigOp.OpType.SET)));
        alter(topic, "retention.ms", "", AlterConfigOp.OpType.DELETE).get();
        eventually(() -> config(topic, "retention.ms").source() != ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG);
        alter(topic, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND).get();
        eventually(() -> config(topic, "cleanup.policy").value().equals("delete,compact"));
        alter(topic, "cleanup.policy", "compact", AlterConfigOp.OpType.SUBTRACT).get();
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        say("broker.id", config(broker, "node.id").value());
    }

    static ConfigEntry config(ConfigResource resource, String name) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
    }

    static void records() throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                 Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < 10; i++) {
                producer.send(new ProducerRecord<>(TOPIC, 0, NOON + i % 7, "k", "v" + i));
            }
            producer.flush();
            DescribeProducersResult.PartitionProducerState state =
                admin.describeProducers(List.of(FIRST)).partitionResult(FIRST).get();
            say("producers", state.activeProducers().size());
            say("last.sequence", state.activeProducers().get(0).lastSequence());
        }
        say("earliest", offset(OffsetSpec.earliest()));
        say("latest", offset(OffsetSpec.latest()));
        say("max.timestamp", offset(OffsetSpec.maxTimestamp()));
        say("at.time", offset(OffsetSpec.forTimestamp(NOON + 3)));
        say("after.all", offset(OffsetSpec.forTimestamp(NOON + 100)));
        say("deleted.to",
            admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(4))).lowWatermarks().get(FIRST).get()
                .lowWatermark());
        say("earliest.then", offset(OffsetSpec.earliest()));
        say("beyond.the.end", refusal(
            () -> admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(99))).all()));
        Map<Integer, Map<String, LogDirDescription>> dirs =
            admin.describeLogDirs(List.of(1, 2, 3)).allDescriptions().get();
        say("log.dirs", dirs.values().stream().filter(
            each -> each.values().iterator().next().replicaInfos().get(FIRST).size() > 0).count());
        TopicPartitionReplica replica = new TopicPartitionReplica(TOPIC, 0, 2);
        say("replica.dir", admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica)
            .getCurrentReplicaLogDir() != null);
    }

    /** Partition 0 moves from 1, 2, 3 to 3, 2; leadership goes along. */
    static void replicas() throws Exception {
        Map<TopicPartition, Optional<NewPartitionReassignment>> wanted =
            Map.of(FIRST, Optional.of(new NewPartitionReassignment(List.of(3, 2))));
        admin.alterPartitionReassignments(wanted).all().get();
        eventually(() -> admin.listPartitionReassignments().reassignments().get().isEmpty());
        eventually(() -> ids(describe().partitions().get(0).replicas()).equals(List.of(3, 2)));
        say("not.moving", refusal(() -> admin.alterPartitionReassignments(Map.of(FIRST, Optional.empty())).all()));
        say("no.such.broker", refusal(() -> admin.alterPartitionReassignments(
            Map.of(FIRST, Optional.of(new NewPartitionReassignment(List.of(3, 9))))).all()));
        eventually(() -> describe().partitions().get(0).leader().id() == 3);
        elect(ElectionType.PREFERRED, "preferred");
        elect(ElectionType.UNCLEAN, "unclean");
    }

    static void deletion() throws Exception {
        TopicDescription found = describe();
        admin.deleteTopics(TopicCollection.ofTopicIds(List.of(found.topicId()))).all().get();
        eventually(() -> !admin.listTopics().names().get().contains(TOPIC));
        say("deleted.again", refusal(() -> admin.deleteTopics(List.of(TOPIC)).all()));
    }

    static void elect(ElectionType type, String name) throws Exception {
        Optional<Throwable> error = admin.electLeaders(type, Set.of(FIRST)).partitions().get().get(FIRST);
        say(name, error.map(each -> each.getClass().getSimpleName()).orElse("elected"));
    }

    static long offset(OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(FIRST, spec)).partitionResult(FIRST).get().offset();
    }

    static TopicDescription describe() throws Exception {
        return admin.describeTopics(List.of(TOPIC)).allTopicNames().get().get(TOPIC);
    }

    static List<Integer> ids(List<Node> nodes) {
        return nodes.stream().map(Node::id).toList();
    }

    static void set(ConfigResource resource, String name, String value) throws Exception {
        alter(resource, name, value, AlterConfigOp.OpType.SET).get();
    }

    static KafkaFuture<Void> alter(ConfigResource resource, String name, String value, AlterConfigOp.OpType kind) {
        Collection<AlterConfigOp> change = List.of(new AlterConfigOp(new ConfigEntry(name, value), kind));
        return admin.incrementalAlterConfigs(Map.of(resource, change)).all();
    }

    static String refusal(Callable<KafkaFuture<?>> call) throws Exception {
        try {
            call.call().get();
            return "none";
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
    }

    static void eventually(Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (!holds(condition)) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("still not so");
            }
            Thread.sleep(20);
        }
    }

    /** A broker may answer before it has heard of a change. */
    static boolean holds(Callable<Boolean> condition) throws Exception {
        try {
            return condition.call();
        } catch (ExecutionException error) {
            if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                return false;
            }
            throw error;
        }
    }

    static void say(String name, Object value) {
        System.out.println(name + "=" + value);
    }
}
