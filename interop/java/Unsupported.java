// Uses features that are not supported, and prints their errors: one `name=exception: message` per line.
// Usage: java Unsupported.java BOOTSTRAP TOPIC   (an existing topic)

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Unsupported {
    static final String LOGIN =
        "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"a\" password=\"b\";";
    static String bootstrap;
    static String topic;

    public static void main(String[] arguments) {
        bootstrap = arguments[0];
        topic = arguments[1];
        attempt("transactions", Unsupported::transactions);
        attempt("group.protocol", () -> poll(Map.of("group.id", "next-generation", "group.protocol", "consumer")));
        attempt("share.group", Unsupported::share);
        attempt("sasl", () -> listTopics(
            Map.of("security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", "PLAIN", "sasl.jaas.config", LOGIN)));
        attempt("tls", () -> listTopics(Map.of("security.protocol", "SSL")));
        attempt("acls", () -> withAdmin(admin -> admin.describeAcls(AclBindingFilter.ANY).values().get()));
        attempt("list.transactions", () -> withAdmin(admin -> admin.listTransactions().all().get()));
        attempt("move.between.directories", () -> withAdmin(admin -> admin.alterReplicaLogDirs(
            Map.of(new TopicPartitionReplica(topic, 0, 1), "/elsewhere")).all().get()));
    }

    static Object transactions() {
        Map<String, Object> settings = settings(Map.of("transactional.id", "t", "max.block.ms", "10000"));
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
        }
        return null;
    }

    static Object poll(Map<String, String> extra) {
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(settings(extra), new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            for (int i = 0; i < 100; i++) {
                consumer.poll(Duration.ofMillis(100));
            }
        }
        return null;
    }

    static Object share() {
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(
                 settings(Map.of("group.id", "shared")), new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(Set.of(topic));
            for (int i = 0; i < 100; i++) {
                consumer.poll(Duration.ofMillis(100));
            }
        }
        return null;
    }

    static Object listTopics(Map<String, String> extra) throws Exception {
        try (Admin admin = Admin.create(settings(extra))) {
            return admin.listTopics().names().get();
        }
    }

    static Object withAdmin(Call call) throws Exception {
        try (Admin admin = Admin.create(settings(Map.of()))) {
            return call.on(admin);
        }
    }

    interface Call {
        Object on(Admin admin) throws Exception;
    }

    static Map<String, Object> settings(Map<String, String> extra) {
        Map<String, Object> all = new HashMap<>(extra);
        all.putAll(Map.of("bootstrap.servers", bootstrap));
        if (extra.containsKey("security.protocol")) {  // the client reconnects until its timeout
            all.putAll(Map.of("default.api.timeout.ms", "3000", "request.timeout.ms", "2000"));
        }
        return all;
    }

    static void attempt(String name, Callable<Object> call) {
        String result;
        try {
            result = "works: " + call.call();
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            result = cause.getClass().getSimpleName() + ": " + cause.getMessage();
        }
        System.out.println(name + "=" + result.replace('\n', ' '));
    }
}
