import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.commit.magic.MagicS3GuardCommitter;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.TaskID;
import org.apache.hadoop.mapreduce.TaskType;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitter;
import org.apache.hadoop.mapreduce.task.JobContextImpl;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;

/**
 * Hadoop's magic committer, driven as an engine drives it, without one.
 *
 * <p>Arguments are options of Hadoop, {@code name=value}. Each line on standard input is a job,
 * {@code URL files tasks threads bytes}, and is answered by one line of JSON on standard output: what
 * each phase took, in seconds and in seconds of processor time. It ends with its standard input.
 */
public final class HadoopPeer {
  private static final String CLUSTER = "200001010000";

  private final Configuration options = new Configuration();
  private int jobs = 0;

  public static void main(String[] arguments) throws Exception {
    HadoopPeer peer = new HadoopPeer();
    for (String one : arguments) {
      int equals = one.indexOf('=');
      peer.options.set(one.substring(0, equals), one.substring(equals + 1));
    }
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = lines.readLine()) != null; ) {
      String answer;
      try {
        answer = peer.job(line.trim().split(" "));
      } catch (Throwable trouble) {
        trouble.printStackTrace();
        answer = "{\"error\": \"" + trouble.toString().replaceAll("[^\\p{Print}]|[\"\\\\]", " ") + "\"}";
      }
      System.out.println(answer);
      System.out.flush();
    }
  }

  private String job(String[] told) throws Exception {
    Path destination = new Path(told[0]);
    int files = Integer.parseInt(told[1]);
    int tasks = Integer.parseInt(told[2]);
    byte[] body = new byte[Integer.parseInt(told[4])];
    Arrays.fill(body, (byte) 'x');

    Configuration mine = new Configuration(options);
    String uuid = UUID.randomUUID().toString();
    mine.set("fs.s3a.committer.uuid", uuid);
    mine.set("mapreduce.output.fileoutputformat.outputdir", told[0]);
    JobID id = new JobID(CLUSTER, ++jobs);
    JobContext job = new JobContextImpl(mine, id);

    Laps laps = new Laps();
    PathOutputCommitter driver = new MagicS3GuardCommitter(destination, attempt(mine, id, 0));
    driver.setupJob(job);
    laps.end("setup");
    TaskAttemptContext[] contexts = new TaskAttemptContext[tasks];
    PathOutputCommitter[] committers = new PathOutputCommitter[tasks];
    ExecutorService threads = Executors.newFixedThreadPool(Integer.parseInt(told[3]));
    try {
      each(threads, tasks, number -> {
        contexts[number] = attempt(mine, id, number);
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
    return laps.json();
  }

  private static TaskAttemptContext attempt(Configuration job, JobID id, int number) {
    TaskAttemptID attempt = new TaskAttemptID(new TaskID(id, TaskType.MAP, number), 0);
    Configuration mine = new Configuration(job);
    mine.set("mapreduce.job.id", id.toString());
    mine.set("mapreduce.task.attempt.id", attempt.toString());
    return new TaskAttemptContextImpl(mine, attempt);
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
    private final StringBuilder told = new StringBuilder();
    private long wall = System.nanoTime();
    private long processor = system.getProcessCpuTime();

    void end(String phase) {
      long now = System.nanoTime();
      long used = system.getProcessCpuTime();
      told.append(told.length() == 0 ? "" : ", ").append(String.format(Locale.ROOT,
          "\"%s\": [%.6f, %.6f]", phase, (now - wall) / 1e9, (used - processor) / 1e9));
      wall = now;
      processor = used;
    }

    String json() {
      return "{" + told + "}";
    }
  }
}
