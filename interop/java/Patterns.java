import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;

/** Reads lines of a pattern and names, separated by tabs; prints 1 or 0 for each name, or "invalid" for the pattern. */
public class Patterns {
    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = lines.readLine()) != null) {
            String[] fields = line.split("\t", -1);
            System.out.println(evaluate(fields));
        }
    }

    private static String evaluate(String[] fields) {
        try {
            Pattern pattern = Pattern.compile(fields[0]);
            var found = new StringBuilder();
            for (int i = 1; i < fields.length; i++) found.append(pattern.matcher(fields[i]).find() ? '1' : '0');
            return found.toString();
        } catch (RuntimeException | StackOverflowError error) { // Java's parser has faults, too
            return "invalid";
        }
    }
}
