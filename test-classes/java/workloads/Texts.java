package workloads;

import java.io.IOException;
import java.util.Random;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.FuzzyQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.PhraseQuery;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.store.ByteBuffersDirectory;

/**
 * Indexes a thousand documents with Lucene and searches them 300 times, again and again in one thread:
 * rounds a second.
 *
 * <p>Usage: {@code Texts SECONDS [WARM_UP]}, a warm-up of twice as long if nothing is said
 */
public final class Texts {
    private static final String[] WORDS =
        "order cart price stock customer invoice payment refund parcel label return address city street".split(" ");

    private Texts() {}

    public static void main(String[] args) throws Exception {
        double seconds = Double.parseDouble(args[0]);
        double warmUp = args.length > 1 ? Double.parseDouble(args[1]) : 2 * seconds;
        run(warmUp / 2);
        Figures.ready();
        run(warmUp / 2);
        Figures.print("rounds_per_second", run(seconds));
    }

    private static double run(double seconds) throws IOException {
        long begin = System.nanoTime();
        long hits = 0;
        int rounds = 0;
        double taken = 0;
        while (taken < seconds) {
            hits += round(new Random(7));
            rounds++;
            taken = (System.nanoTime() - begin) / 1e9;
        }
        if (hits % rounds != 0) {
            throw new IllegalStateException("rounds that find different things");
        }
        return rounds / taken;
    }

    private static long round(Random random) throws IOException {
        long hits = 0;
        try (ByteBuffersDirectory directory = new ByteBuffersDirectory()) {
            IndexWriterConfig config = new IndexWriterConfig(new StandardAnalyzer());
            try (IndexWriter writer = new IndexWriter(directory, config)) {
                for (int i = 0; i < 1_000; i++) {
                    StringBuilder text = new StringBuilder();
                    for (int w = 0; w < 30; w++) {
                        text.append(WORDS[random.nextInt(WORDS.length)]).append(' ');
                    }
                    Document document = new Document();
                    document.add(new TextField("text", text.toString(), Field.Store.NO));
                    writer.addDocument(document);
                }
            }
            try (DirectoryReader reader = DirectoryReader.open(directory)) {
                IndexSearcher searcher = new IndexSearcher(reader);
                for (int i = 0; i < 100; i++) {
                    String word = WORDS[random.nextInt(WORDS.length)];
                    String other = WORDS[random.nextInt(WORDS.length)];
                    hits += searcher.search(new TermQuery(new Term("text", word)), 10).totalHits.value;
                    hits += searcher.search(new PhraseQuery("text", word, other), 10).totalHits.value;
                    hits += searcher.search(new FuzzyQuery(new Term("text", word + "s")), 10).totalHits.value;
                }
            }
        }
        return hits;
    }
}
