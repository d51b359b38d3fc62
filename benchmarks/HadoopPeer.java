import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.management.ManagementFactory;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.s3a.commit.files.PendingSet;
import org.apache.hadoop.fs.s3a.commit.files.SinglePendingCommit;
import org.apache.hadoop.fs.s3a.commit.files.SuccessData;
import org.apache.hadoop.fs.s3a.commit.magic.MagicS3GuardCommitter;
import org.apache.hadoop.fs.s3a.commit.staging.DirectoryStagingCommitter;
import org.apache.hadoop.fs.s3a.commit.staging.PartitionedStagingCommitter;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.TaskID;
import org.apache.hadoop.mapreduce.TaskType;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitter;
import org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitter;
import org.apache.hadoop.mapreduce.lib.output.committer.manifest.files.ManifestSuccessData;
import org.apache.hadoop.mapreduce.lib.output.committer.manifest.files.TaskManifest;
import org.apache.hadoop.mapreduce.task.JobContextImpl;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;

/**
 * Hadoop's committers, driven as an engine drives them, without one.
 *
 * <p>Arguments are options of Hadoop, {@code name=value}. Each line on standard input is a command, its words
 * apart by tabs, and is answered by one line of JSON on standard output. It ends with its standard input.
 *
 * <ul>
 *   <li>{@code bench URL files tasks threads bytes}: a job of the magic committer; what each phase took, in
 *       seconds and in seconds of processor time.
 *   <li>{@code run KIND URL JOB name=value...}: a job, or a part of one. {@code tasks=0-3} or {@code none};
 *       {@code files=2} of {@code rows=3} each; {@code parts=0,1,root}: partitions in turn; {@code stem=part};
 *       {@code side=jvm}: first word of each row; {@code attempt=0} of the job, {@code taskattempt=0};
 *       {@code setup=true}, {@code setuptask=true}, {@code taskcommit=true}; {@code end=commit}, {@code abort} or
 *       {@code none}; {@code pad=0}: bytes more in each row; {@code fresh=false}: whether file names bear the
 *       job; any name with a dot is an option of Hadoop. If something fails, the task and the job are aborted, as
 *       an engine does, unless {@code clean=false}.
 *   <li>{@code put PATH TEXT}: one line, through the filesystem; {@code load FILE...}: what Hadoop's own classes
 *       make of them; {@code tree URL}; {@code rows URL}; {@code uploads URL}.
 * </ul>
 */
public final class HadoopPeer {
  private static final String CLUSTER = "202601010000";

  private final Configuration options = new Configuration();
  private int jobs = 0;

  public static void main(String[] arguments) throws Exception {
    HadoopPeer peer = new HadoopPeer();
    for (String one : arguments) {
      int equals = one.indexOf('=');
      peer.options.set(one.substring(0, equals), one.substring(equals + 1));
    }
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = lines.readLine()) != null; ) {
      Object answer;
      try {
        answer = peer.answer(Arrays.asList(line.split("\t")));
      } catch (Throwable trouble) {
        StringWriter trace = new StringWriter();
        trouble.printStackTrace(new PrintWriter(trace));
        System.err.println(trace);
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("error", trouble.toString());
        told.put("trace", trace.toString());
        answer = told;
      }
      byte[] text = (json(answer) + "\n").getBytes(StandardCharsets.UTF_8);
      System.out.write(text, 0, text.length);
      System.out.flush();
    }
  }

  private Object answer(List<String> words) throws Exception {
    List<String> rest = words.subList(1, words.size());
    switch (words.get(0)) {
      case "bench":
        return bench(rest);
      case "run":
        return run(rest);
      case "put":
        return put(new Path(rest.get(0)), rest.get(1));
      case "load":
        return load(rest);
      case "tree":
        return tree(new Path(rest.get(0)));
      case "rows":
        return rows(new Path(rest.get(0)));
      case "uploads":
        return uploads(new Path(rest.get(0)));
      default:
        throw new IllegalArgumentException(words.get(0));
    }
  }

  // -- what is measured

  private Object bench(List<String> told) throws Exception {
    Path destination = new Path(told.get(0));
    int files = Integer.parseInt(told.get(1));
    int tasks = Integer.parseInt(told.get(2));
    byte[] body = new byte[Integer.parseInt(told.get(4))];
    Arrays.fill(body, (byte) 'x');

    Configuration mine = new Configuration(options);
    String uuid = UUID.randomUUID().toString();
    mine.set("fs.s3a.committer.uuid", uuid);
    mine.set("mapreduce.output.fileoutputformat.outputdir", told.get(0));
    JobID id = new JobID(CLUSTER, ++jobs);
    JobContext job = new JobContextImpl(mine, id);

    Laps laps = new Laps();
    PathOutputCommitter driver = new MagicS3GuardCommitter(destination, attempt(mine, id, 0, 0));
    driver.setupJob(job);
    laps.end("setup");
    TaskAttemptContext[] contexts = new TaskAttemptContext[tasks];
    PathOutputCommitter[] committers = new PathOutputCommitter[tasks];
    ExecutorService threads = Executors.newFixedThreadPool(Integer.parseInt(told.get(3)));
    try {
      each(threads, tasks, number -> {
        contexts[number] = attempt(mine, id, number, 0);
        committers[number] = new MagicS3GuardCommitter(destination, contexts[number]);
        committers[number].setupTask(contexts[number]);
        Path below = committers[number].getWorkPath();
        FileSystem filesystem = below.getFileSystem(mine);
        for (int file = number; file < files; file += tasks) {
          String name = String.format("part-%05d-%05d.bin", number, file);
          try (FSDataOutputStream stream = filesystem.create(new Path(below, name), false)) {
            stream.write(body);
          }
        }
      });
      laps.end("write");
      each(threads, tasks, number -> committers[number].commitTask(contexts[number]));
      laps.end("task_commits");
    } finally {
      threads.shutdown();
    }
    driver.commitJob(job);
    laps.end("job_commit");
    return laps.seconds;
  }

  private static TaskAttemptContext attempt(Configuration job, JobID id, int number, int attempt) {
    TaskAttemptID name = new TaskAttemptID(new TaskID(id, TaskType.MAP, number), attempt);
    Configuration mine = new Configuration(job);
    mine.set("mapreduce.job.id", id.toString());
    mine.set("mapreduce.task.attempt.id", name.toString());
    return new TaskAttemptContextImpl(mine, name);
  }

  private interface Step {
    void run(int number) throws IOException;
  }

  private static void each(ExecutorService threads, int tasks, Step step) throws Exception {
    List<Callable<Void>> all = new ArrayList<>();
    for (int task = 0; task < tasks; task++) {
      final int number = task;
      all.add(() -> {
        step.run(number);
        return null;
      });
    }
    for (Future<Void> one : threads.invokeAll(all)) {
      one.get();
    }
  }

  /** What each phase took. */
  private static final class Laps {
    private final com.sun.management.OperatingSystemMXBean system =
        (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private final Map<String, Object> seconds = new LinkedHashMap<>();
    private long wall = System.nanoTime();
    private long processor = system.getProcessCpuTime();

    void end(String phase) {
      long now = System.nanoTime();
      long used = system.getProcessCpuTime();
      seconds.put(phase, Arrays.asList((now - wall) / 1e9, (used - processor) / 1e9));
      wall = now;
      processor = used;
    }
  }

  // -- jobs

  private static PathOutputCommitter committer(String kind, Path out, TaskAttemptContext context)
      throws IOException {
    switch (kind) {
      case "magic":
        return new MagicS3GuardCommitter(out, context);
      case "directory":
        return new DirectoryStagingCommitter(out, context);
      case "partitioned":
        return new PartitionedStagingCommitter(out, context);
      case "manifest":
        return new ManifestCommitter(out, context);
      default:
        throw new IllegalArgumentException(kind);
    }
  }

  private Object run(List<String> words) {
    String kind = words.get(0);
    Path out = new Path(words.get(1));
    String uuid = words.get(2);
    Configuration mine = new Configuration(options);
    Map<String, String> told = new HashMap<>();
    for (String word : words.subList(3, words.size())) {
      int equals = word.indexOf('=');
      String name = word.substring(0, equals);
      if (name.contains(".")) {
        mine.set(name, word.substring(equals + 1));
      } else {
        told.put(name, word.substring(equals + 1));
      }
    }
    mine.set("fs.s3a.committer.uuid", uuid);
    mine.set("spark.sql.sources.writeJobUUID", uuid);
    mine.set("mapreduce.output.fileoutputformat.outputdir", out.toString());
    mine.set("mapreduce.job.application.attempt.id", told.getOrDefault("attempt", "0"));
    return new Run(kind, out, uuid, mine, told).go();
  }

  /** One job, and how far it came. */
  private static final class Run {
    private final String kind;
    private final Path out;
    private final String uuid;
    private final Configuration configuration;
    private final Map<String, String> told;
    private final JobID id = new JobID(CLUSTER, 1);
    private final Map<String, Object> answer = new LinkedHashMap<>();
    private final List<String> work = new ArrayList<>();
    private String stage = "new";
    private JobContext job;
    private PathOutputCommitter driver;
    private TaskAttemptContext task;
    private PathOutputCommitter committer;

    Run(String kind, Path out, String uuid, Configuration configuration, Map<String, String> told) {
      this.kind = kind;
      this.out = out;
      this.uuid = uuid;
      this.configuration = configuration;
      this.told = told;
    }

    Object go() {
      try {
        TaskAttemptContext first = attempt(configuration, id, 0, 0);
        job = new JobContextImpl(first.getConfiguration(), id);
        driver = committer(kind, out, first);
        stage = "setup";
        if (is("setup")) {
          driver.setupJob(job);
        }
        String tasks = told.getOrDefault("tasks", "0-3");
        if (!tasks.equals("none")) {
          String[] range = tasks.split("-");
          for (int n = Integer.parseInt(range[0]); n <= Integer.parseInt(range[range.length - 1]); n++) {
            write(n);
          }
        }
        stage = "job commit";
        String end = told.getOrDefault("end", "commit");
        if (end.equals("commit")) {
          driver.commitJob(job);
        } else if (end.equals("abort")) {
          driver.abortJob(job, JobStatus.State.KILLED);
        }
        stage = end.equals("none") ? "left" : "ended";
      } catch (Exception trouble) {
        answer.put("failed", trouble.getClass().getSimpleName() + ": " + trouble.getMessage());
        if (!told.getOrDefault("clean", "true").equals("false")) {
          clean();
        }
      }
      answer.put("stage", stage);
      answer.put("work", work);
      return answer;
    }

    private boolean is(String name) {
      return !told.getOrDefault(name, "true").equals("false");
    }

    private int number(String name, int otherwise) {
      return told.containsKey(name) ? Integer.parseInt(told.get(name)) : otherwise;
    }

    private void write(int number) throws IOException {
      stage = "task";
      task = attempt(job.getConfiguration(), id, number, number("taskattempt", 0));
      committer = committer(kind, out, task);
      if (is("setuptask")) {
        committer.setupTask(task);
      }
      work.add(committer.getWorkPath().toString());
      String[] parts = told.getOrDefault("parts", "root").split(",");
      String padding = "x".repeat(number("pad", 0));
      String ending = (told.getOrDefault("fresh", "false").equals("true") ? "-" + uuid : "") + ".csv";
      for (int file = 0; file < number("files", 2); file++) {
        String part = parts[file % parts.length];
        String name = told.getOrDefault("stem", "part") + "-" + number + "-" + file + ending;
        Path path = new Path(committer.getWorkPath(), part.equals("root") ? name : part + "/" + name);
        try (FSDataOutputStream stream = path.getFileSystem(configuration).create(path, false)) {
          for (int row = 0; row < number("rows", 3); row++) {
            String text = told.getOrDefault("side", "jvm") + "," + number + "," + file + "," + row + padding;
            stream.write((text + "\n").getBytes(StandardCharsets.UTF_8));
          }
        }
      }
      stage = "task commit";
      if (is("taskcommit") && committer.needsTaskCommit(task)) {
        committer.commitTask(task);
      }
      task = null;
    }

    private void clean() {
      try {
        if (task != null) {
          committer.abortTask(task);
        }
        if (driver != null && !stage.equals("setup") && !stage.equals("new")) {
          driver.abortJob(job, JobStatus.State.FAILED);
        }
      } catch (Exception trouble) {
        answer.put("abort", trouble.toString());
      }
    }
  }

  // -- reading

  private Object put(Path path, String text) throws IOException {
    FileSystem filesystem = path.getFileSystem(options);
    try (FSDataOutputStream stream = filesystem.create(path, false)) {
      stream.write((text + "\n").getBytes(StandardCharsets.UTF_8));
    }
    return filesystem.getFileStatus(path).getLen();
  }

  private List<Object> load(List<String> names) throws Exception {
    List<Object> all = new ArrayList<>();
    for (String name : names) {
      Map<String, Object> told = new LinkedHashMap<>();
      all.add(told);
      try {
        load(new Path(name), told);
      } catch (IOException | RuntimeException trouble) {
        told.put("refused", trouble.toString());
      }
    }
    return all;
  }

  private void load(Path path, Map<String, Object> told) throws Exception {
    String name = path.getName();
    FileSystem filesystem = path.getFileSystem(options);
    if (name.endsWith(".pendingset")) {
      PendingSet set = (PendingSet) loaded(PendingSet.class, filesystem, path);
      set.validate();
      told.put("job", set.getJobId());
      List<Object> commits = new ArrayList<>();
      for (SinglePendingCommit one : set.getCommits()) {
        commits.add(told(one));
      }
      told.put("commits", commits);
    } else if (name.endsWith(".pending")) {
      SinglePendingCommit one = (SinglePendingCommit) loaded(SinglePendingCommit.class, filesystem, path);
      one.validate();
      told.putAll(told(one));
    } else if (name.endsWith("-manifest.json")) {
      TaskManifest manifest = TaskManifest.load(filesystem, path).validate();
      told.put("job", manifest.getJobId());
      told.put("attempt", manifest.getTaskAttemptID());
      told.put("files", manifest.getFilesToCommit().size());
      told.put("bytes", manifest.getTotalFileSize());
    } else {
      SuccessData success = SuccessData.load(filesystem, path);
      success.validate();
      told.put("job", success.getJobId());
      told.put("committer", success.getCommitter());
      told.put("files", success.getFilenames());
      ManifestSuccessData manifest = ManifestSuccessData.load(filesystem, path).validate();
      told.put("manifest", manifest.getJobId());
    }
  }

  /** Its class's own load, whose arguments differ from release to release. */
  private static Object loaded(Class<?> kind, FileSystem filesystem, Path path) throws Exception {
    for (Method method : kind.getMethods()) {
      Class<?>[] wanted = method.getParameterTypes();
      if (!method.getName().equals("load") || wanted.length < 2 || wanted[1] != Path.class) {
        continue;
      }
      Object[] given = new Object[wanted.length];
      given[0] = filesystem;
      given[1] = path;
      for (int n = 2; n < wanted.length; n++) {
        boolean status = wanted[n] == FileStatus.class;
        given[n] = status ? filesystem.getFileStatus(path) : kind.getMethod("serializer").invoke(null);
      }
      try {
        return method.invoke(null, given);
      } catch (InvocationTargetException trouble) {
        throw trouble.getCause() instanceof Exception ? (Exception) trouble.getCause() : trouble;
      }
    }
    throw new IllegalStateException(kind + " has no load");
  }

  private static Map<String, Object> told(SinglePendingCommit one) {
    Map<String, Object> told = new LinkedHashMap<>();
    told.put("key", one.getDestinationKey());
    told.put("upload", one.getUploadId());
    told.put("parts", one.getPartCount());
    told.put("length", one.getLength());
    told.put("job", one.getJobId());
    told.put("task", one.getTaskId());
    return told;
  }

  private Object tree(Path root) throws IOException {
    FileSystem filesystem = root.getFileSystem(options);
    Map<String, Object> found = new LinkedHashMap<>();
    Deque<Path> left = new ArrayDeque<>(Arrays.asList(root));
    while (!left.isEmpty()) {
      for (FileStatus one : filesystem.listStatus(left.pop())) {
        if (one.isDirectory()) {
          left.push(one.getPath());
          continue;
        }
        long length = one.getLen();
        if (length == 0) {
          byte[] marked = null;
          try {
            marked = filesystem.getXAttr(one.getPath(), "header.x-hadoop-s3a-magic-data-length");
          } catch (IOException | UnsupportedOperationException none) {
            // Not a marker.
          }
          length = marked == null ? 0 : Long.parseLong(new String(marked, StandardCharsets.UTF_8));
        }
        found.put(one.getPath().toString().substring(root.toString().length() + 1), length);
      }
    }
    return found;
  }

  private Object rows(Path root) throws IOException {
    FileSystem filesystem = root.getFileSystem(options);
    List<String> found = new ArrayList<>();
    RemoteIterator<? extends FileStatus> files = filesystem.listFiles(root, true);
    while (files.hasNext()) {
      Path path = files.next().getPath();
      String below = path.toString().substring(root.toString().length());
      if (below.contains("/_") || below.contains("/.")) {
        continue;
      }
      try (BufferedReader reader =
          new BufferedReader(new InputStreamReader(filesystem.open(path), StandardCharsets.UTF_8))) {
        for (String row; (row = reader.readLine()) != null; ) {
          found.add(row);
        }
      }
    }
    return found;
  }

  /** By reflection: uploads are values of the SDK, of which Hadoop 3.3 has another generation. */
  private Object uploads(Path root) throws Exception {
    FileSystem filesystem = root.getFileSystem(options);
    String prefix = root.toUri().getPath().substring(1);
    Object listed = filesystem.getClass().getMethod("listUploads", String.class).invoke(filesystem, prefix);
    List<String> found = new ArrayList<>();
    RemoteIterator<?> each = (RemoteIterator<?>) listed;
    while (each.hasNext()) {
      Object one = each.next();
      Method key;
      try {
        key = one.getClass().getMethod("key");
      } catch (NoSuchMethodException older) {
        key = one.getClass().getMethod("getKey");
      }
      found.add((String) key.invoke(one));
    }
    return found;
  }

  // -- JSON

  private static String json(Object value) {
    if (value instanceof Map) {
      List<String> all = new ArrayList<>();
      for (Map.Entry<?, ?> one : ((Map<?, ?>) value).entrySet()) {
        all.add(json(String.valueOf(one.getKey())) + ": " + json(one.getValue()));
      }
      return "{" + String.join(", ", all) + "}";
    }
    if (value instanceof Collection) {
      List<String> all = new ArrayList<>();
      for (Object one : (Collection<?>) value) {
        all.add(json(one));
      }
      return "[" + String.join(", ", all) + "]";
    }
    if (value == null || value instanceof Boolean || value instanceof Integer || value instanceof Long) {
      return String.valueOf(value);
    }
    if (value instanceof Double) {
      return String.format(Locale.ROOT, "%.6f", value);
    }
    StringBuilder text = new StringBuilder("\"");
    for (char one : value.toString().toCharArray()) {
      if (one == '"' || one == '\\') {
        text.append('\\').append(one);
      } else if (one < ' ') {
        text.append(String.format("\\u%04x", (int) one));
      } else {
        text.append(one);
      }
    }
    return text.append('"').toString();
  }
}
