package libraries;

import java.util.Random;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.IntPoint;
import org.apache.lucene.document.StoredField;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.FuzzyQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.PhraseQuery;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.store.ByteBuffersDirectory;

/** Indexes documents with Lucene and prints what several searches find. */
public final class Search {
    private static final String[] WORDS =
        "order cart price stock customer invoice payment refund parcel label return address city street".split(" ");

    private Search() {}

    public static void main(String[] args) throws Exception {
        Random random = new Random(7);
        try (ByteBuffersDirectory directory = new ByteBuffersDirectory()) {
            try (IndexWriter writer = new IndexWriter(directory, new IndexWriterConfig(new StandardAnalyzer()))) {
                for (int i = 0; i < 2000; i++) {
                    StringBuilder text = new StringBuilder();
                    for (int w = 0; w < 30; w++) {
                        text.append(WORDS[random.nextInt(WORDS.length)]).append(w % 7 == 0 ? ". " : " ");
                    }
                    Document document = new Document();
                    document.add(new TextField("text", text.toString(), Field.Store.NO));
                    document.add(new StoredField("number", i));
                    document.add(new IntPoint("size", random.nextInt(100)));
                    writer.addDocument(document);
                    if (i % 500 == 499) {
                        writer.commit();
                    }
                }
                writer.deleteDocuments(IntPoint.newRangeQuery("size", 90, 99));
                writer.forceMerge(1);
            }
            try (DirectoryReader reader = DirectoryReader.open(directory)) {
                IndexSearcher searcher = new IndexSearcher(reader);
                System.out.println(reader.numDocs());
                show(searcher, new TermQuery(new Term("text", "refund")));
                show(searcher, new PhraseQuery("text", "order", "cart"));
                show(searcher, new FuzzyQuery(new Term("text", "adress")));
                show(searcher, new BooleanQuery.Builder()
                    .add(new TermQuery(new Term("text", "parcel")), BooleanClause.Occur.MUST)
                    .add(new TermQuery(new Term("text", "label")), BooleanClause.Occur.MUST_NOT)
                    .add(IntPoint.newRangeQuery("size", 10, 20), BooleanClause.Occur.FILTER)
                    .build());
            }
        }
    }

    private static void show(IndexSearcher searcher, Query query) throws Exception {
        System.out.println(query + ": " + searcher.count(query));
        for (ScoreDoc hit : searcher.search(query, 5).scoreDocs) {
            Document document = searcher.storedFields().document(hit.doc);
            System.out.println("  " + document.getField("number").numericValue() + " " + hit.score);
        }
    }
}
