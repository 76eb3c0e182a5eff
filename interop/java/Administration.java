// Makes every call of the admin client that a cluster without security and transactions supports.
// Prints results: one `name=value` per line.
// Usage: java Administration.java BOOTSTRAP   (brokers 1, 2 and 3; the program creates and deletes a topic)

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
    static final long FIRST_TIMESTAMP = 1_700_000_000_000L;
    static String bootstrap;
    static Admin admin;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        try (Admin client = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin = client;
            cluster();
            topics();
            configs();
            records();
            replicas();
            deletion();
        }
    }

    static void cluster() throws Exception {
        print("brokers", admin.describeCluster().nodes().get().stream().map(Node::id).sorted().toList());
        print("cluster.id", admin.describeCluster().clusterId().get());
        print("controller.is.a.broker", admin.describeCluster().controller().get().id() > 0);
        QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
        print("voters", quorum.voters().stream().map(QuorumInfo.ReplicaState::replicaId).sorted().toList());
        print("quorum.leader.known", quorum.voters().stream().anyMatch(voter -> voter.replicaId() == quorum.leaderId()));
        print("voter.addresses", quorum.nodes().size());
        print("features", new TreeMap<>(admin.describeFeatures().featureMetadata().get().finalizedFeatures()).keySet());
    }

    static void topics() throws Exception {
        NewTopic topic = new NewTopic(TOPIC, Map.of(0, List.of(1, 2, 3), 1, List.of(2, 3, 1)))
            .configs(Map.of("min.insync.replicas", "2"));
        admin.createTopics(List.of(topic), new CreateTopicsOptions().validateOnly(true)).all().get();
        print("validated.only", admin.listTopics().names().get().contains(TOPIC));
        admin.createTopics(List.of(topic)).all().get();
        eventually(() -> admin.listTopics().names().get().contains(TOPIC));
        print("again", errorOf(() -> admin.createTopics(List.of(topic)).all()));
        print("too.many.replicas", errorOf(() -> admin.createTopics(List.of(new NewTopic("x", 1, (short) 9))).all()));
        admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(3, List.of(List.of(3, 1, 2))))).all().get();
        print("fewer.partitions",
            errorOf(() -> admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(1))).all()));
        eventually(() -> describe().partitions().size() == 3);
        TopicDescription description = describe();
        print("partitions", description.partitions().stream().map(partition -> ids(partition.replicas())).toList());
        print("leaders", description.partitions().stream().map(partition -> partition.leader().id()).toList());
        print("in.sync", description.partitions().stream().allMatch(partition -> partition.isr().size() == 3));
        print("elr", description.partitions().get(0).elr());
        print("unknown.topic", errorOf(() -> admin.describeTopics(List.of("nope")).allTopicNames()));
    }

    static void configs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
        set(topic, "retention.ms", "3600000");
        eventually(() -> config(topic, "retention.ms").value().equals("3600000"));
        print("retention", config(topic, "retention.ms").source());
        print("bad.value", errorOf(() -> alter(topic, "retention.ms", "soon", AlterConfigOp.OpType.SET)));
        print("bad.name", errorOf(() -> alter(topic, "no.such", "1", AlterConfigOp.OpType.SET)));
        alter(topic, "retention.ms", "", AlterConfigOp.OpType.DELETE).get();
        eventually(() -> config(topic, "retention.ms").source() != ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG);
        alter(topic, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND).get();
        eventually(() -> config(topic, "cleanup.policy").value().equals("delete,compact"));
        alter(topic, "cleanup.policy", "compact", AlterConfigOp.OpType.SUBTRACT).get();
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        print("broker.id", config(broker, "node.id").value());
    }

    static ConfigEntry config(ConfigResource resource, String name) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
    }

    static void records() throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                 Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < 10; i++) {
                producer.send(new ProducerRecord<>(TOPIC, 0, FIRST_TIMESTAMP + i % 7, "k", "v" + i));
            }
            producer.flush();
            DescribeProducersResult.PartitionProducerState state =
                admin.describeProducers(List.of(FIRST)).partitionResult(FIRST).get();
            print("producers", state.activeProducers().size());
            print("last.sequence", state.activeProducers().get(0).lastSequence());
        }
        print("earliest", offset(OffsetSpec.earliest()));
        print("latest", offset(OffsetSpec.latest()));
        print("max.timestamp", offset(OffsetSpec.maxTimestamp()));
        print("at.time", offset(OffsetSpec.forTimestamp(FIRST_TIMESTAMP + 3)));
        print("after.all", offset(OffsetSpec.forTimestamp(FIRST_TIMESTAMP + 100)));
        print("deleted.to",
            admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(4))).lowWatermarks().get(FIRST).get()
                .lowWatermark());
        print("earliest.then", offset(OffsetSpec.earliest()));
        print("beyond.the.end", errorOf(
            () -> admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(99))).all()));
        Map<Integer, Map<String, LogDirDescription>> dirs =
            admin.describeLogDirs(List.of(1, 2, 3)).allDescriptions().get();
        print("log.dirs", dirs.values().stream().filter(
            directories -> directories.values().iterator().next().replicaInfos().get(FIRST).size() > 0).count());
        TopicPartitionReplica replica = new TopicPartitionReplica(TOPIC, 0, 2);
        print("replica.dir", admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica)
            .getCurrentReplicaLogDir() != null);
    }

    /** Partition 0 moves from brokers 1, 2, 3 to 3, 2, and gets another leader. */
    static void replicas() throws Exception {
        Map<TopicPartition, Optional<NewPartitionReassignment>> target =
            Map.of(FIRST, Optional.of(new NewPartitionReassignment(List.of(3, 2))));
        admin.alterPartitionReassignments(target).all().get();
        eventually(() -> admin.listPartitionReassignments().reassignments().get().isEmpty());
        eventually(() -> ids(describe().partitions().get(0).replicas()).equals(List.of(3, 2)));
        print("not.moving", errorOf(() -> admin.alterPartitionReassignments(Map.of(FIRST, Optional.empty())).all()));
        print("no.such.broker", errorOf(() -> admin.alterPartitionReassignments(
            Map.of(FIRST, Optional.of(new NewPartitionReassignment(List.of(3, 9))))).all()));
        eventually(() -> describe().partitions().get(0).leader().id() == 3);
        elect(ElectionType.PREFERRED, "preferred");
        elect(ElectionType.UNCLEAN, "unclean");
    }

    static void deletion() throws Exception {
        TopicDescription description = describe();
        admin.deleteTopics(TopicCollection.ofTopicIds(List.of(description.topicId()))).all().get();
        eventually(() -> !admin.listTopics().names().get().contains(TOPIC));
        print("deleted.again", errorOf(() -> admin.deleteTopics(List.of(TOPIC)).all()));
    }

    static void elect(ElectionType type, String name) throws Exception {
        Optional<Throwable> error = admin.electLeaders(type, Set.of(FIRST)).partitions().get().get(FIRST);
        print(name, error.map(cause -> cause.getClass().getSimpleName()).orElse("elected"));
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

    static String errorOf(Callable<KafkaFuture<?>> call) throws Exception {
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
                throw new IllegalStateException("timed out");
            }
            Thread.sleep(20);
        }
    }

    /** A broker may answer before it has applied a change. */
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

    static void print(String name, Object value) {
        System.out.println(name + "=" + value);
    }
}
