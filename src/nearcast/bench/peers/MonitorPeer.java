import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.lucene.analysis.core.KeywordAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.DoublePoint;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.StringField;
import org.apache.lucene.index.Term;
import org.apache.lucene.monitor.MatchingQueries;
import org.apache.lucene.monitor.Monitor;
import org.apache.lucene.monitor.MonitorConfiguration;
import org.apache.lucene.monitor.MonitorQuery;
import org.apache.lucene.monitor.MultiMatchingQueries;
import org.apache.lucene.monitor.QueryMatch;
import org.apache.lucene.monitor.TermFilteredPresearcher;
import org.apache.lucene.monitor.TermWeightor;
import org.apache.lucene.search.BooleanClause.Occur;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.TermQuery;

/**
 * Lucene's Monitor behind a pipe: a command a line on stdin, an answer a line on stdout.
 *
 * <p>"load FILE" registers a query for each line "x_min y_min x_max y_max word...", and answers with nanoseconds. "match
 * FILE OUT BATCH" matches a document for each line "x y word...", BATCH of them a call, and answers with how many
 * matches there were. OUT then has, big-endian: the nanoseconds of each call as longs, then a document and a query as
 * ints for each match. Files are read before a clock runs. The end of stdin ends the program.
 */
public final class MonitorPeer {
  private static final String WORD = "word", PLACE = "place", CELL = "cell";
  /** Levels of the quadtree whose cells are tokens; level 0 is one cell around everything. */
  private static final int LEVELS = 16;

  /** Queries carry the token of a cell, and documents those of all cells whose queries may hold them. */
  private final boolean hasCells;

  private Monitor monitor;
  private double left, bottom, side;

  private MonitorPeer(boolean hasCells) {
    this.hasCells = hasCells;
  }

  public static void main(String[] arguments) {
    int status = 0;
    try {
      serve(arguments);
    } catch (Throwable error) {
      error.printStackTrace();
      status = 1;
    }
    System.exit(status); // a Monitor keeps a thread that would keep the process
  }

  private static void serve(String[] arguments) throws IOException {
    IndexSearcher.setMaxClauseCount(1 << 20); // a batch has more words than a query may have by default
    MonitorPeer peer = new MonitorPeer(arguments.length > 0 && arguments[0].equals("cells"));
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    System.out.println("ready java " + System.getProperty("java.version"));
    for (String line; (line = commands.readLine()) != null; ) {
      String[] words = line.split("\t");
      long answer = words[0].equals("load")
          ? peer.load(rows(words[1], 4))
          : peer.match(rows(words[1], 2), Path.of(words[2]), Integer.parseInt(words[3]));
      System.out.println("done " + answer);
    }
  }

  private record Row(double[] numbers, String[] words) {}

  private static List<Row> rows(String file, int n) throws IOException {
    List<Row> rows = new ArrayList<>();
    try (BufferedReader lines = Files.newBufferedReader(Path.of(file))) {
      for (String line; (line = lines.readLine()) != null; ) {
        String[] parts = line.split(" ");
        double[] numbers = new double[n];
        for (int i = 0; i < n; i++) numbers[i] = Double.parseDouble(parts[i]);
        rows.add(new Row(numbers, java.util.Arrays.copyOfRange(parts, n, parts.length)));
      }
    }
    return rows;
  }

  private long load(List<Row> rows) throws IOException {
    if (monitor != null) monitor.close();
    long began = System.nanoTime();
    setBounds(rows);
    Set<String> filters = hasCells ? Set.of(CELL) : Set.of();
    monitor = new Monitor(
        new KeywordAnalyzer(),
        new TermFilteredPresearcher(rareFirst(rows), Collections.emptyList(), filters),
        // The cache of queries is swept only when queries go, and none does.
        new MonitorConfiguration().setPurgeFrequency(1000, TimeUnit.DAYS).setQueryUpdateBufferSize(50_000));
    List<MonitorQuery> some = new ArrayList<>();
    for (int row = 0; row < rows.size(); row++) {
      some.add(query(row, rows.get(row)));
      if (some.size() == 50_000 || row == rows.size() - 1) {
        monitor.register(some);
        some.clear();
      }
    }
    return System.nanoTime() - began;
  }

  /** Lets the presearcher choose the word that the fewest queries have. */
  private static TermWeightor rareFirst(List<Row> rows) {
    Map<String, Integer> counts = new HashMap<>();
    for (Row row : rows) for (String word : row.words) counts.merge(word, 1, Integer::sum);
    return term -> 1.0 / (1 + counts.getOrDefault(term.text(), 0));
  }

  private MonitorQuery query(int number, Row row) {
    BooleanQuery.Builder all = new BooleanQuery.Builder();
    for (String word : row.words) all.add(new TermQuery(new Term(WORD, word)), Occur.FILTER);
    double[] box = row.numbers;
    double[] low = {box[0], box[1]}, high = {box[2], box[3]};
    all.add(DoublePoint.newRangeQuery(PLACE, low, high), Occur.FILTER);
    Map<String, String> tokens = hasCells ? Map.of(CELL, cellAround(low, high)) : Map.of();
    return new MonitorQuery(Integer.toString(number), all.build(), null, tokens);
  }

  private Document document(Row row) {
    Document document = new Document();
    for (String word : row.words) document.add(new StringField(WORD, word, Field.Store.NO));
    document.add(new DoublePoint(PLACE, row.numbers));
    if (hasCells) addCells(document, row.numbers[0], row.numbers[1]);
    return document;
  }

  private long match(List<Row> rows, Path out, int batch) throws IOException {
    int calls = (rows.size() + batch - 1) / batch;
    long[] nanos = new long[calls];
    List<int[]> found = new ArrayList<>();
    for (int call = 0; call < calls; call++) {
      int first = call * batch, last = Math.min(first + batch, rows.size());
      long began = System.nanoTime();
      if (batch == 1) {
        MatchingQueries<QueryMatch> one = monitor.match(document(rows.get(first)), QueryMatch.SIMPLE_MATCHER);
        for (QueryMatch each : one.getMatches()) found.add(new int[] {first, Integer.parseInt(each.getQueryId())});
      } else {
        Document[] documents = new Document[last - first];
        for (int i = first; i < last; i++) documents[i - first] = document(rows.get(i));
        MultiMatchingQueries<QueryMatch> many = monitor.match(documents, QueryMatch.SIMPLE_MATCHER);
        for (int i = first; i < last; i++)
          for (QueryMatch each : many.getMatches(i - first))
            found.add(new int[] {i, Integer.parseInt(each.getQueryId())});
      }
      nanos[call] = System.nanoTime() - began;
    }
    try (DataOutputStream to = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(out)))) {
      for (long each : nanos) to.writeLong(each);
      for (int[] pair : found) {
        to.writeInt(pair[0]);
        to.writeInt(pair[1]);
      }
    }
    return found.size();
  }

  // --- cells: a loose quadtree. A box is filed in the cell of its centre, at the deepest level whose cells are no
  // smaller than it, so that it reaches at most half a cell beyond it. A point has the tokens of the cells that lie
  // within half a cell of it: up to four on each level.

  private void setBounds(List<Row> rows) {
    double right = Double.NEGATIVE_INFINITY, top = Double.NEGATIVE_INFINITY;
    left = bottom = Double.POSITIVE_INFINITY;
    for (Row row : rows) {
      left = Math.min(left, row.numbers[0]);
      bottom = Math.min(bottom, row.numbers[1]);
      right = Math.max(right, row.numbers[2]);
      top = Math.max(top, row.numbers[3]);
    }
    side = Math.max(Math.max(right - left, top - bottom), Double.MIN_NORMAL);
  }

  private String cellAround(double[] low, double[] high) {
    double widest = Math.max(high[0] - low[0], high[1] - low[1]), cell = side;
    int level = 0;
    while (level + 1 < LEVELS && cell / 2 >= widest) {
      cell /= 2;
      level++;
    }
    long column = (long) Math.floor(((low[0] + high[0]) / 2 - left) / cell);
    long row = (long) Math.floor(((low[1] + high[1]) / 2 - bottom) / cell);
    return token(level, column, row);
  }

  private void addCells(Document document, double x, double y) {
    double cell = side;
    for (int level = 0; level < LEVELS; level++, cell /= 2) {
      // A little more than half, for what rounding may do.
      double reach = 0.5 + 1e-6, column = (x - left) / cell, row = (y - bottom) / cell;
      for (long i = (long) Math.floor(column - reach); i <= (long) Math.floor(column + reach); i++)
        for (long j = (long) Math.floor(row - reach); j <= (long) Math.floor(row + reach); j++)
          document.add(new StringField(CELL, token(level, i, j), Field.Store.NO));
    }
  }

  private static String token(int level, long column, long row) {
    return level + "/" + column + "/" + row;
  }
}
