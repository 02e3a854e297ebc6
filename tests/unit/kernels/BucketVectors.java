/*
 * Makes bucket_vectors.json: what Apache Hudi 1.1.1's own classes answer for record keys, partition values and key fields.
 *
 * Run it with any JDK from 11 on, with Hudi's bundle and Spark's jars on the class path:
 *   java -cp hudi-spark3.5-bundle_2.12-1.1.1.jar:SPARK/jars/* BucketVectors.java > bucket_vectors.json
 *
 * "hangs" as a bucket means: Apache Hudi's parser of record keys runs in a circle for ever on this key.
 */

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.apache.avro.Conversions;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.hudi.avro.HoodieAvroUtils;
import org.apache.hudi.common.util.PartitionPathEncodeUtils;
import org.apache.hudi.index.bucket.BucketIdentifier;

public class BucketVectors {
  static final String[] FIELDS = {"id", "a", "b", "a,b", "b,a", "", "a,b,c", "note"};
  static final int[] COUNTS = {4, 8, 16, 256, 1000003, Integer.MAX_VALUE};
  static final String[] TOKENS = {
    "a", "b", "c", "id", "1", "22", "", ",", ",", ",", ":", ":", ":", "a:", "b:", ",b:", ",c:", "id:", "日本", "😀", "é",
    "__null__", "__empty__", "x y", "\t"
  };
  static final String[] KEYS = {
    "", "TXN-001", "abc", "polygenelubricants", "日本", "😀", "a😀b", "\uffee", "ünïcödé", "\u0000", "id:7", "id:7,8", "x:y",
    "http://h/p", "http://h:80/a,b", "Smith, John", "Smith, John: the second", "12:30,13:45", "a:1,b:2", "b:2,a:1", "a:x,y:1,b:2",
    "a:__null__,b:__empty__", "a:,b:", "a:1,b:", "a:1,b:12:30", "a:12:30,b:1", "a:1,,b:2", ",a:1,b:2", "a:1,b:2,", "a:1,b:2,3",
    "a:1,b:2,c:3", "a:日本,b:😀", "id:,", ":,", ",:", "::,,", ",", ":", "a:1,b:2,a:3", "a:1,a:2,a:3", "x,id:1", "x,y:1:2",
    "note:a:b,id:1", "note:a,b:c,id:1", "year:2013,month:1,day:1,carrier:UA,flight:1545,origin:EWR,sched_dep_time:515",
    "36f1c9a0-6f6d-4d4e-9b53-0c2b7e6a1d55", "polygenelubricantspolygenelubricants", "a:__null__,b:x", "a:x,b:__null__"
  };

  public static void main(String[] args) throws Exception {
    List<String> rows = new ArrayList<>();
    for (String key : KEYS) {
      for (String fields : FIELDS) {
        rows.add(bucket(key, fields, COUNTS[rows.size() % COUNTS.length]));
      }
    }
    Random random = new Random(42);
    for (int i = 0; i < 600; i++) {
      StringBuilder key = new StringBuilder();
      for (int parts = 1 + random.nextInt(9); parts > 0; parts--) {
        key.append(TOKENS[random.nextInt(TOKENS.length)]);
      }
      rows.add(bucket(key.toString(), FIELDS[random.nextInt(FIELDS.length)], COUNTS[random.nextInt(COUNTS.length)]));
    }
    List<String> hashes = new ArrayList<>();
    for (String key : KEYS) {
      hashes.add("[" + quote(key) + ", " + key.hashCode() + "]");
    }
    List<String> escapes = new ArrayList<>();
    for (int c = 1; c < 300; c++) {
      String value = "v" + (char) c;
      escapes.add("[" + quote(value) + ", " + quote(PartitionPathEncodeUtils.escapePathName(value)) + "]");
    }
    String text = "{\n" + block("buckets", rows) + ",\n" + block("hashes", hashes) + ",\n" + block("escapes", escapes) + ",\n"
        + block("texts", texts()) + "\n}\n";
    System.out.write(text.getBytes(StandardCharsets.UTF_8));
    System.out.flush();
    System.exit(0);
  }

  @SuppressWarnings({"deprecation", "removal"})
  static String bucket(String key, String fields, int count) throws Exception {
    String[] answer = {"\"hangs\""};
    Thread thread = new Thread(() -> {
      try {
        answer[0] = "" + BucketIdentifier.getBucketId(key, fields, count);
      } catch (RuntimeException error) {
        answer[0] = quote(error.getClass().getSimpleName());
      }
    });
    thread.setDaemon(true);
    thread.start();
    thread.join(300);
    thread.stop();
    return "[" + quote(key) + ", " + quote(fields) + ", " + count + ", " + answer[0] + "]";
  }

  static List<String> texts() {
    List<String> rows = new ArrayList<>();
    text(rows, "int32", Schema.create(Schema.Type.INT), -7, "-7");
    text(rows, "int64", Schema.create(Schema.Type.LONG), 1234567890123L, "1234567890123");
    text(rows, "bool", Schema.create(Schema.Type.BOOLEAN), true, "true");
    text(rows, "date32", LogicalTypes.date().addToSchema(Schema.create(Schema.Type.INT)), 19000, "19000");
    text(rows, "timestamp_ms", LogicalTypes.timestampMillis().addToSchema(Schema.create(Schema.Type.LONG)), 1641600000123L, "1641600000123");
    text(rows, "timestamp_us", LogicalTypes.timestampMicros().addToSchema(Schema.create(Schema.Type.LONG)), 1641600000123456L, "1641600000123456");
    for (String plain : Arrays.asList("12.5000000", "0.0000001", "0.0000000", "-3.1400000", "123456789.0000000")) {
      Schema schema = LogicalTypes.decimal(20, 7).addToSchema(Schema.createFixed("d", null, null, 9));
      Object value = new Conversions.DecimalConversion().toFixed(new BigDecimal(plain).setScale(7), schema, schema.getLogicalType());
      text(rows, "decimal(20,7)", schema, value, plain);
    }
    return rows;
  }

  static void text(List<String> rows, String type, Schema schema, Object value, String input) {
    Schema record = Schema.createRecord("r", null, null, false);
    record.setFields(Arrays.asList(new Schema.Field("f", schema, null, (Object) null)));
    GenericRecord row = new GenericData.Record(record);
    row.put("f", value);
    rows.add("[" + quote(type) + ", " + quote(input) + ", " + quote(HoodieAvroUtils.getNestedFieldValAsString(row, "f", true, false)) + ", "
        + quote(HoodieAvroUtils.getNestedFieldValAsString(row, "f", true, true)) + "]");
  }

  static String block(String name, List<String> rows) {
    return "\"" + name + "\": [\n" + String.join(",\n", rows) + "\n]";
  }

  static String quote(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      out.append(c == '"' || c == '\\' ? "\\" + c : c < 32 || c > 126 ? String.format("\\u%04x", (int) c) : "" + c);
    }
    return out.append('"').toString();
  }
}
