/* Makes the n-th call that changes a file fail, or the process die there. To be preloaded; shim.py knows the variables.

   FAULT_UNDER   folders, with colons between: only calls on what lies in them count
   FAULT_TALLY   a file of sizeof(struct tally) bytes, shared by the process and its children, readable after any death
   FAULT_KIND    which calls are counted for the fault: write, sync, rename, truncate, unlink
   FAULT_AT      at which of them, counted from 1; 0 is never
   FAULT_STAYS   if set, a failure goes on from there to the end: a disk that stays full
   FAULT_ACTION  an errno's number; short (half is written, then ENOSPC), before, after, torn (half is written, then death) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { WRITE, SYNC, RENAME, TRUNCATE, UNLINK, KINDS };
static const char *const names[KINDS] = {"write", "sync", "rename", "truncate", "unlink"};

struct tally {
    atomic_ulong counts[KINDS];
    atomic_ulong fired;
    char hit[512];
};

static struct tally nowhere, *tally = &nowhere;
static const char *under = "", *action = "";
static enum kind faulty = KINDS;
static unsigned long at;
static int stays;

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

__attribute__((constructor)) void fault_start(void) {
    int fd = open(variable("FAULT_TALLY"), O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *shared = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared == MAP_FAILED) return;
    under = strdup(variable("FAULT_UNDER"));
    action = strdup(variable("FAULT_ACTION"));
    at = strtoul(variable("FAULT_AT"), NULL, 10);
    stays = *variable("FAULT_STAYS") != 0;
    for (int kind = 0; kind < KINDS; kind++)
        if (!strcmp(names[kind], variable("FAULT_KIND"))) faulty = kind;
    tally = shared;
}

static int is_under(const char *path) {
    for (const char *folder = under; *folder;) {
        size_t length = strcspn(folder, ":");
        if (length && !strncmp(path, folder, length) && (path[length] == '/' || path[length] == 0)) return 1;
        folder += length + (folder[length] == ':');
    }
    return 0;
}

static int find_fd(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    return is_under(path);
}

static int find_path(int folder, const char *name, char *path) {
    if (*name == '/') {
        snprintf(path, PATH_MAX, "%s", name);
        return is_under(path);
    }
    char base[PATH_MAX];
    if (folder == AT_FDCWD ? !getcwd(base, sizeof base) : (find_fd(folder, base), !*base)) return 0;
    return snprintf(path, PATH_MAX, "%s/%s", base, name) < PATH_MAX && is_under(path);
}

/* Tells whether a log is synced into which nothing was written since it last was: what a checkpoint begins with. */
static int is_idle(enum kind kind, const char *path) {
    static atomic_int is_dirty;
    size_t length = strlen(path);
    if (length < 4 || strcmp(path + length - 4, "-wal")) return 0;
    if (kind == WRITE) atomic_store(&is_dirty, 1);
    return kind == SYNC && !atomic_exchange(&is_dirty, 0);
}

/* Counts a call; tells whether it is the one. */
static int is_hit(enum kind kind, const char *call, const char *path) {
    const char *idle = is_idle(kind, path) ? "idle " : "";
    unsigned long number = atomic_fetch_add(&tally->counts[kind], 1) + 1;
    if (kind != faulty || !at || (stays ? number < at : number != at)) return 0;
    if (!atomic_fetch_add(&tally->fired, 1)) snprintf(tally->hit, sizeof tally->hit, "%s%s %.480s", idle, call, path);
    return 1;
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static int is(const char *name) { return !strcmp(action, name); }

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

/* Acts on `call`, or lets it pass. `half`, if any, does it by half. */
#define FAULTY(kind, name, found, call, half)                          \
    do {                                                               \
        char path[PATH_MAX];                                           \
        int before = errno;                                            \
        int hit = (found) && is_hit(kind, #name, path);                \
        errno = before;                                                \
        if (!hit) return call;                                         \
        if (is("before")) die();                                       \
        if (is("torn") || is("short")) (void)!(half);                  \
        if (is("torn")) die();                                         \
        if (is("after")) {                                             \
            (void)!(call);                                             \
            die();                                                     \
        }                                                              \
        errno = is("short") ? ENOSPC : atoi(action);                   \
        return -1;                                                     \
    } while (0)

ssize_t write(int fd, const void *data, size_t size) {
    FAULTY(WRITE, write, find_fd(fd, path), REAL(write)(fd, data, size), REAL(write)(fd, data, size / 2));
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t to) {
    FAULTY(WRITE, pwrite, find_fd(fd, path), REAL(pwrite)(fd, data, size, to), REAL(pwrite)(fd, data, size / 2, to));
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t to) {
    FAULTY(WRITE, pwrite64, find_fd(fd, path), REAL(pwrite64)(fd, data, size, to), REAL(pwrite64)(fd, data, size / 2, to));
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    FAULTY(WRITE, writev, find_fd(fd, path), REAL(writev)(fd, parts, count), REAL(write)(fd, parts->iov_base, parts->iov_len / 2));
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t to) {
    FAULTY(WRITE, pwritev, find_fd(fd, path), REAL(pwritev)(fd, parts, count, to), REAL(pwrite)(fd, parts->iov_base, parts->iov_len / 2, to));
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t to) {
    FAULTY(WRITE, pwritev64, find_fd(fd, path), REAL(pwritev64)(fd, parts, count, to), REAL(pwrite64)(fd, parts->iov_base, parts->iov_len / 2, to));
}
int fsync(int fd) { FAULTY(SYNC, fsync, find_fd(fd, path), REAL(fsync)(fd), 0); }
int fdatasync(int fd) { FAULTY(SYNC, fdatasync, find_fd(fd, path), REAL(fdatasync)(fd), 0); }
int ftruncate(int fd, off_t size) { FAULTY(TRUNCATE, ftruncate, find_fd(fd, path), REAL(ftruncate)(fd, size), 0); }
int ftruncate64(int fd, off64_t size) { FAULTY(TRUNCATE, ftruncate64, find_fd(fd, path), REAL(ftruncate64)(fd, size), 0); }
int rename(const char *from, const char *to) {
    FAULTY(RENAME, rename, find_path(AT_FDCWD, to, path), REAL(rename)(from, to), 0);
}
int renameat(int from_fd, const char *from, int to_fd, const char *to) {
    FAULTY(RENAME, renameat, find_path(to_fd, to, path), REAL(renameat)(from_fd, from, to_fd, to), 0);
}
int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags) {
    FAULTY(RENAME, renameat2, find_path(to_fd, to, path), REAL(renameat2)(from_fd, from, to_fd, to, flags), 0);
}
int unlink(const char *name) { FAULTY(UNLINK, unlink, find_path(AT_FDCWD, name, path), REAL(unlink)(name), 0); }
int unlinkat(int folder, const char *name, int flags) {
    FAULTY(UNLINK, unlinkat, find_path(folder, name, path), REAL(unlinkat)(folder, name, flags), 0);
}
