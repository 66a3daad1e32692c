import hesml.measures.ISimilarityMeasure;
import hesml.measures.SimilarityMeasureType;
import hesml.measures.impl.MeasureFactory;
import hesml.taxonomy.ITaxonomy;
import hesml.taxonomy.IVertex;
import hesml.taxonomy.impl.TaxonomyFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** HESML: the dissimilarity of pairs by their ancestors (Sánchez 2012), timed as {@code timing.py} does. */
public final class HesmlPairs {
    private final ITaxonomy taxonomy = TaxonomyFactory.createBlankTaxonomy();
    private final Map<String, List<String>> parents = new LinkedHashMap<>();
    private final Map<String, IVertex> vertices = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        HesmlPairs pairs = new HesmlPairs(texts("links.json"));
        ISimilarityMeasure measure = MeasureFactory.getMeasure(pairs.taxonomy, SimilarityMeasureType.Sanchez2012);
        List<String> names = texts("pairs.json");
        double[] rates = new double[2];
        double[] values = new double[names.size() / 2];
        for (int run = 0; run < rates.length; run++) {
            long start = System.nanoTime();
            for (int i = 0; i < values.length; i++) {
                IVertex first = pairs.vertices.get(names.get(2 * i));
                values[i] = 2 - Math.pow(2, measure.compare(first, pairs.vertices.get(names.get(2 * i + 1))));
            }
            rates[run] = values.length * 1e9 / (System.nanoTime() - start);
        }
        String format = "{\"first\": %s, \"again\": %s, \"values\": %s}%n";
        System.out.printf(format, rates[0], rates[1], Arrays.toString(values));
    }

    private HesmlPairs(List<String> links) throws Exception {
        for (int i = 0; i < links.size(); i += 2) {
            parents.computeIfAbsent(links.get(i), name -> new ArrayList<>()).add(links.get(i + 1));
        }
        for (String name : parents.keySet()) {
            vertex(name);
        }
        taxonomy.computesCachedAttributes();
        taxonomy.computeCachedAncestorSet(false);
    }

    /** Returns the vertex of a concept, which is added after its parents. */
    private IVertex vertex(String name) throws Exception {
        if (!vertices.containsKey(name)) {
            List<Long> above = new ArrayList<>();
            for (String parent : parents.getOrDefault(name, List.of())) {
                above.add(vertex(parent).getID());
            }
            vertices.put(name, taxonomy.addVertex((long) vertices.size(), above.toArray(new Long[0])));
        }
        return vertices.get(name);
    }

    /** Returns the texts in double quotes of a file. */
    private static List<String> texts(String file) throws Exception {
        Matcher matcher = Pattern.compile("\"([^\"]*)\"").matcher(Files.readString(Path.of(file)));
        return matcher.results().map(found -> found.group(1)).toList();
    }
}
