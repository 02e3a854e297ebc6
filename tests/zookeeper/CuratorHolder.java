// Takes and releases Curator's InterProcessMutex as Apache Hudi's lock provider does, on commands from stdin:
// "acquire MILLISECONDS" answers "acquired" or "refused"; "release" answers "released"; the end of input ends it.
// Arguments: connect string, lock path, and user:password for digest where wanted.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.BoundedExponentialBackoffRetry;

public class CuratorHolder {
  public static void main(String[] arguments) throws Exception {
    CuratorFrameworkFactory.Builder builder =
        CuratorFrameworkFactory.builder()
            .connectString(arguments[0])
            .sessionTimeoutMs(10_000)
            .connectionTimeoutMs(10_000)
            .retryPolicy(new BoundedExponentialBackoffRetry(1_000, 5_000, 3));
    if (arguments.length > 2) {
      builder.authorization("digest", arguments[2].getBytes());
    }
    CuratorFramework client = builder.build();
    client.start();
    client.blockUntilConnected(20, TimeUnit.SECONDS);
    InterProcessMutex mutex = new InterProcessMutex(client, arguments[1]);
    answer("ready");
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      String[] words = line.trim().split(" ");
      if (words[0].equals("acquire")) {
        answer(mutex.acquire(Long.parseLong(words[1]), TimeUnit.MILLISECONDS) ? "acquired" : "refused");
      } else if (words[0].equals("release")) {
        mutex.release();
        answer("released");
      } else {
        answer("unknown command " + line);
      }
    }
    client.close();
  }

  private static void answer(String text) {
    System.out.println(text);
    System.out.flush();
  }
}
