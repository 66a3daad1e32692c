import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.deidentifier.arx.ARXAnonymizer;
import org.deidentifier.arx.ARXConfiguration;
import org.deidentifier.arx.ARXResult;
import org.deidentifier.arx.AttributeType;
import org.deidentifier.arx.AttributeType.Hierarchy;
import org.deidentifier.arx.Data;
import org.deidentifier.arx.DataHandle;
import org.deidentifier.arx.criteria.KAnonymity;

/** ARX: k-anonymity of both diagnoses by the best levels of whole columns, and leaving records out. */
public final class ArxGroups {
    private static final String[] DIAGNOSES = {"principal", "secondary"};

    public static void main(String[] arguments) throws IOException {
        List<String[]> records = rows("records.csv");
        ARXConfiguration configuration = ARXConfiguration.create(number(arguments[0], "suppressed") / 100.0);
        configuration.addPrivacyModel(new KAnonymity(number(arguments[0], "k")));
        ARXResult result = new ARXAnonymizer().anonymize(described(records), configuration);
        DataHandle masked = result.getOutput(false);
        int leftOut = write(records, masked, arguments[0].replaceAll(".*\"root\": \"(\\w+)\".*", "$1"));
        int[] levels = result.getGlobalOptimum().getTransformation();
        System.out.printf("{\"left out\": %d, \"levels\": [%d, %d]}%n", leftOut, levels[0], levels[1]);
    }

    private static Data described(List<String[]> records) throws IOException {
        List<String[]> ancestors = rows("hierarchies.csv");
        Data.DefaultData data = Data.create();
        records.forEach(record -> data.add(record[0], record[1]));
        for (int j = 0; j < DIAGNOSES.length; j++) {
            int column = j;
            Set<String> values = records.stream().skip(1).map(record -> record[column]).collect(Collectors.toSet());
            Hierarchy.DefaultHierarchy hierarchy = Hierarchy.create();
            ancestors.stream().filter(row -> values.contains(row[0])).forEach(hierarchy::add);
            data.getDefinition().setAttributeType(DIAGNOSES[j], AttributeType.QUASI_IDENTIFYING_ATTRIBUTE);
            data.getDefinition().setAttributeType(DIAGNOSES[j], hierarchy);
        }
        return data;
    }

    /** Writes the masked table, in which both codes of a record that is left out are the root. */
    private static int write(List<String[]> records, DataHandle masked, String root) throws IOException {
        List<String> lines = new ArrayList<>(List.of(String.join(",", records.get(0))));
        int leftOut = 0;
        for (int i = 0; i < masked.getNumRows(); i++) {
            String[] record = records.get(i + 1);
            boolean out = masked.isOutlier(i);
            String[] codes = {out ? root : masked.getValue(i, 0), out ? root : masked.getValue(i, 1)};
            lines.add(String.join(",", codes[0], codes[1], record[2], record[3]));
            leftOut += out ? 1 : 0;
        }
        Files.write(Path.of("masked-0.csv"), lines);
        return leftOut;
    }

    private static int number(String parameters, String name) {
        return Integer.parseInt(parameters.replaceAll(".*\"" + name + "\": (\\d+).*", "$1"));
    }

    private static List<String[]> rows(String file) throws IOException {
        return Files.readAllLines(Path.of(file)).stream().map(line -> line.split(",")).toList();
    }
}
