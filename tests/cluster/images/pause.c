/* Holds the namespaces of a pod: the first process of its sandbox. It waits for a signal to end and
 * collects the orphans of containers that share its process namespace. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal) {
  (void)signal;
  _exit(EXIT_SUCCESS);
}

static void collect(int signal) {
  (void)signal;
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
}

int main(void) {
  signal(SIGINT, end);
  signal(SIGTERM, end);
  signal(SIGCHLD, collect);
  for (;;) {
    pause();
  }
}
