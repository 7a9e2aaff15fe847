/* The program that an engine starts in place of an OCI runtime: it asks crishim, then becomes the runtime.
 *
 * On create (run, restore) it sends the bundle's config.json to crishim's desk, a unix socket, and puts the answer in its place; on exec
 * likewise the file of --process, if a marker for the container lies beside the desk.  Every other call becomes the runtime at
 * once.  Whatever goes wrong, and whatever takes longer than 5 s, is an error (exit status 125) with words in the file of
 * --log, from where the engine takes them: a container that was not rewritten must not run.
 *
 * No libc, no allocation but two mappings, no JSON.  What is said: crishim/front/wire.py.  What the file OWN-PATH.conf says:
 * crishim/front/twins.py.  How runtimes are called: containerd's go-runc; runc(8).
 *
 * Freestanding: system calls are made by hand, with those numbers that x86-64 and AArch64 have both under these names.
 */

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long u64;

/* ------------------------------------------------------------ the machine */

#if defined(__x86_64__)
enum { NR_read = 0, NR_write = 1, NR_close = 3, NR_lseek = 8, NR_mmap = 9, NR_socket = 41, NR_connect = 42, NR_sendto = 44,
       NR_execve = 59, NR_clock_gettime = 228, NR_exit_group = 231, NR_openat = 257, NR_unlinkat = 263, NR_renameat = 264,
       NR_readlinkat = 267, NR_faccessat = 269, NR_ppoll = 271 };
enum { O_NOFOLLOW = 0400000 };
static long call(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall begin\n\thlt\n");
#elif defined(__aarch64__)
enum { NR_read = 63, NR_write = 64, NR_close = 57, NR_lseek = 62, NR_mmap = 222, NR_socket = 198, NR_connect = 203,
       NR_sendto = 206, NR_execve = 221, NR_clock_gettime = 113, NR_exit_group = 94, NR_openat = 56, NR_unlinkat = 35,
       NR_renameat = 38, NR_readlinkat = 78, NR_faccessat = 48, NR_ppoll = 73 };
enum { O_NOFOLLOW = 0100000 };
static long call(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x30, #0\n\tmov x0, sp\n\tbl begin\n\tbrk #1\n");
#else
#error "a front for this machine is not written yet"
#endif

#define L(x) ((long)(x))
#define SYS3(n, a, b, c) call(NR_##n, L(a), L(b), L(c), 0, 0, 0)
#define SYS4(n, a, b, c, d) call(NR_##n, L(a), L(b), L(c), L(d), 0, 0)

enum { AT_FDCWD = -100, O_RDONLY = 0, O_WRONLY = 1, O_CREAT = 0100, O_EXCL = 0200, O_APPEND = 02000, O_CLOEXEC = 02000000 };
enum { EINTR = 4, ENOENT = 2, EAGAIN = 11 };
enum { AF_UNIX = 1, SOCK_STREAM = 1, SOCK_NONBLOCK = 04000, SOCK_CLOEXEC = 02000000, MSG_NOSIGNAL = 0x4000 };
enum { POLLIN = 1, POLLOUT = 4, CLOCK_REALTIME = 0, CLOCK_MONOTONIC = 1, SEEK_SET = 0, SEEK_END = 2 };
enum { PROT_READ = 1, PROT_WRITE = 2, MAP_PRIVATE = 2, MAP_ANONYMOUS = 0x20 };

struct timespec { long seconds, nanoseconds; };
struct pollfd { int fd; short events, revents; };
struct sockaddr_un { unsigned short family; char path[108]; };

/* The compiler may ask for these two whatever it is told. */
void *memcpy(void *to, const void *from, u64 size) {
    u8 *t = to;
    const u8 *f = from;
    while (size--) *t++ = *f++;
    return to;
}
void *memset(void *to, int byte, u64 size) {
    u8 *t = to;
    while (size--) *t++ = (u8)byte;
    return to;
}

/* ------------------------------------------------------------ text */

enum { PATH = 4096, CONF = 16384, ARGUMENTS = 4096 };
enum { EXIT = 125, LIMIT = 5, LARGEST = 64 << 20, WORDS = 4096 };

static u64 size_of(const char *text) {
    u64 size = 0;
    while (text[size]) size++;
    return size;
}

static int same(const char *one, const char *other) {
    while (*one && *one == *other) one++, other++;
    return *one == *other;
}

/* Texts that are built up; what does not fit is left out, and then `full` is set. */
struct text { char *at, *end; int full; };

static void add(struct text *text, const char *part, u64 size) {
    if (size > (u64)(text->end - text->at)) {
        size = (u64)(text->end - text->at);
        text->full = 1;
    }
    memcpy(text->at, part, size);
    text->at += size;
}

static void put(struct text *text, const char *part) { add(text, part, size_of(part)); }

static void put_number(struct text *text, long number, int digits) {
    char shown[20];
    int at = sizeof shown;
    do {
        shown[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (--digits > 0 || number);
    add(text, shown + at, sizeof shown - (u64)at);
}

/* As a JSON string's content.  Words are UTF-8 already. */
static void put_json(struct text *text, const char *part, u64 size) {
    for (u64 i = 0; i < size; i++) {
        u8 c = (u8)part[i];
        if (text->end - text->at < 2) { /* no half of an escape */
            text->full = 1;
            return;
        }
        if (c == '"' || c == '\\') put(text, "\\");
        if (c >= ' ') add(text, part + i, 1);
        else put(text, " ");
    }
}

/* RFC 3339, as runc writes it.  Days to a date: H. Hinnant's days_from_civil backwards, eras of 400 years from March on. */
static void put_time(struct text *text, long seconds) {
    long day = seconds / 86400, rest = seconds % 86400, shifted = day + 719468, era = shifted / 146097;
    long of_era = shifted % 146097, year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    long of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100), shifted_month = (5 * of_year + 2) / 153;
    long month = shifted_month < 10 ? shifted_month + 3 : shifted_month - 9, year = era * 400 + year_of_era + (month <= 2);
    put_number(text, year, 4), put(text, "-"), put_number(text, month, 2), put(text, "-");
    put_number(text, of_year - (153 * shifted_month + 2) / 5 + 1, 2), put(text, "T");
    put_number(text, rest / 3600, 2), put(text, ":"), put_number(text, rest / 60 % 60, 2), put(text, ":");
    put_number(text, rest % 60, 2), put(text, "Z");
}

/* ------------------------------------------------------------ failing */

static const char *log_path;
static struct timespec began;

static void write_all(int fd, const char *bytes, u64 size) {
    while (size) {
        long n = SYS3(write, fd, bytes, size);
        if (n == -EINTR) continue;
        if (n <= 0) return; /* nobody is left to be told */
        bytes += n, size -= (u64)n;
    }
}

static void put_error(struct text *text, long error) {
    switch (error) {
        case 1: put(text, "operation not permitted"); break;
        case 2: put(text, "no such file or directory"); break;
        case 8: put(text, "exec format error"); break;
        case 13: put(text, "permission denied"); break;
        case 28: put(text, "no space left on device"); break;
        case 30: put(text, "read-only file system"); break;
        case 40: put(text, "too many levels of symbolic links"); break;
        case 104: put(text, "connection reset by peer"); break;
        case 111: put(text, "connection refused"); break;
        default: put(text, "error "), put_number(text, error, 1);
    }
}

/* One line of JSON to the log and to stderr, then the end.  `detail` may be NULL, `error` a negative errno or 0. */
static __attribute__((noreturn)) void fail_with(const char *what, const char *detail, u64 size, long error) {
    static char line[2 * WORDS + 512];
    struct text text = {line, line + sizeof line - 64, 0};
    struct timespec now = {0, 0};
    SYS3(clock_gettime, CLOCK_REALTIME, &now, 0);
    put(&text, "{\"level\":\"error\",\"msg\":\"crishim front: ");
    put_json(&text, what, size_of(what));
    if (detail) put_json(&text, detail, size);
    if (error) put(&text, ": "), put_error(&text, -error);
    text.end = line + sizeof line;
    put(&text, "\",\"time\":\""), put_time(&text, now.seconds), put(&text, "\"}\n");
    long fd = log_path ? SYS4(openat, AT_FDCWD, log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    if (fd >= 0) write_all((int)fd, line, (u64)(text.at - line));
    write_all(2, line, (u64)(text.at - line));
    for (;;) SYS3(exit_group, EXIT, 0, 0);
}

static __attribute__((noreturn)) void fail(const char *what, const char *about, long error) {
    fail_with(what, about, about ? size_of(about) : 0, error);
}

/* ------------------------------------------------------------ files */

static char *mapping(u64 size) {
    long at = call(NR_mmap, 0, (long)size + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at < 0 && at > -4096) fail("no memory", 0, at);
    return (char *)at;
}

static char *read_file(const char *path, u64 *size) {
    long fd = SYS4(openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) fail("cannot open ", path, fd);
    long length = SYS3(lseek, fd, 0, SEEK_END);
    if (length < 0 || length > LARGEST || SYS3(lseek, fd, 0, SEEK_SET) < 0) fail("cannot take ", path, length);
    char *bytes = mapping((u64)length);
    for (*size = 0; *size < (u64)length;) {
        long n = SYS3(read, fd, bytes + *size, (u64)length - *size);
        if (n == -EINTR) continue;
        if (n < 0) fail("cannot read ", path, n);
        if (n == 0) break;
        *size += (u64)n;
    }
    SYS3(close, fd, 0, 0);
    return bytes;
}

/* Another file takes the place of `path`, at once and whole.  In a folder where others may write nothing of theirs is followed. */
static void replace_file(const char *path, const char *bytes, u64 size) {
    char beside[PATH];
    struct text text = {beside, beside + sizeof beside - 1, 0};
    put(&text, path), put(&text, ".crishim");
    if (text.full) fail("a path is too long: ", path, 0);
    *text.at = 0;
    SYS3(unlinkat, AT_FDCWD, beside, 0);
    long fd = SYS4(openat, AT_FDCWD, beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) fail("cannot make ", beside, fd);
    while (size) {
        long n = SYS3(write, fd, bytes, size);
        if (n == -EINTR) continue;
        if (n <= 0) {
            SYS3(unlinkat, AT_FDCWD, beside, 0);
            fail("cannot write ", beside, n);
        }
        bytes += n, size -= (u64)n;
    }
    SYS3(close, fd, 0, 0);
    long done = SYS4(renameat, AT_FDCWD, beside, AT_FDCWD, path);
    if (done < 0) fail("cannot replace ", path, done);
}

/* ------------------------------------------------------------ asking */

static int desk;

/* Nanoseconds that are left; fails when there are none. */
static long left(void) {
    struct timespec now;
    SYS3(clock_gettime, CLOCK_MONOTONIC, &now, 0);
    long spent = (now.seconds - began.seconds) * 1000000000 + now.nanoseconds - began.nanoseconds;
    if (spent >= LIMIT * 1000000000L) fail("crishim did not answer within 5 s", 0, 0);
    return LIMIT * 1000000000L - spent;
}

/* Wait until the desk is ready, or the time is up, or `most` nanoseconds have passed (without a file: fd -1). */
static void await(int fd, short events, long most) {
    long time = left();
    if (most < time) time = most;
    struct timespec limit = {time / 1000000000, time % 1000000000};
    struct pollfd waiting = {fd, events, 0};
    call(NR_ppoll, L(&waiting), 1, L(&limit), 0, 8, 0);
}

static void send_all(const char *bytes, u64 size) {
    while (size) {
        long n = call(NR_sendto, desk, L(bytes), L(size), MSG_NOSIGNAL, 0, 0);
        if (n == -EAGAIN) await(desk, POLLOUT, LIMIT * 1000000000L);
        else if (n <= 0 && n != -EINTR) return; /* it may have said why before it closed: the answer tells */
        else if (n > 0) bytes += n, size -= (u64)n;
    }
}

static void receive(char *bytes, u64 size) {
    while (size) {
        long n = SYS3(read, desk, bytes, size);
        if (n == -EAGAIN) await(desk, POLLIN, LIMIT * 1000000000L);
        else if (n == 0) fail("crishim's answer ended too early", 0, 0);
        else if (n < 0 && n != -EINTR) fail("crishim's answer broke off", 0, n);
        else if (n > 0) bytes += n, size -= (u64)n;
    }
}

static void send_part(const char *bytes, u64 size) {
    char length[4] = {(char)(size >> 24), (char)(size >> 16), (char)(size >> 8), (char)size};
    send_all(length, sizeof length);
    send_all(bytes, size);
}

static u64 receive_length(u64 most) {
    u8 length[4];
    receive((char *)length, sizeof length);
    u64 size = (u64)length[0] << 24 | (u64)length[1] << 16 | (u64)length[2] << 8 | length[3];
    if (size > most) fail("crishim's answer is too long", 0, 0);
    return size;
}

static void connect_to(const char *path) {
    struct sockaddr_un address = {AF_UNIX, {0}};
    u64 size = size_of(path);
    if (size >= sizeof address.path) fail("a socket's path is too long: ", path, 0);
    memcpy(address.path, path, size);
    long fd = SYS3(socket, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) fail("cannot make a socket", 0, fd);
    desk = (int)fd;
    for (;;) {
        long done = SYS3(connect, desk, &address, sizeof address);
        if (!done) return;
        if (done == -EAGAIN) await(-1, 0, 10000000); /* many are asking */
        else if (done != -EINTR) fail("crishim is not there to be asked, at ", path, done);
    }
}

/* Put what crishim answers in the place of `file`. */
static void ask(const char *socket, const char *verb, const char *id, const char *bundle, const char *file) {
    u64 size;
    char *config = read_file(file, &size), status[4];
    connect_to(socket);
    send_all("CRF1", 4);
    send_part(verb, size_of(verb)), send_part(id, size_of(id)), send_part(bundle, size_of(bundle)), send_part(config, size);
    receive(status, sizeof status);
    if (status[0] == 'N' && status[1] == 'O' && !status[2] && !status[3]) {
        static char words[WORDS];
        u64 length = receive_length(sizeof words);
        receive(words, length);
        fail_with("", words, length, 0);
    }
    if (status[0] != 'O' || status[1] != 'K' || status[2] || status[3]) fail("what crishim said is no answer", 0, 0);
    u64 length = receive_length(LARGEST);
    char *answer = mapping(length);
    receive(answer, length);
    if (!length) fail("crishim's answer is empty", 0, 0);
    replace_file(file, answer, length);
    SYS3(close, desk, 0, 0);
}

/* ------------------------------------------------------------ how it was called */

static const char *const verbs[] = {"create", "run", "restore", "exec", "start", "state", "kill", "delete", "checkpoint", "pause",
                                    "resume", "update", "ps", "list", "events", "features", "spec", "init", 0};
static const char *const global_options[] = {"log", "log-format", "root", "criu", "rootless", 0}; /* those with a value */

static int among(const char *word, const char *const *words) {
    for (; *words; words++)
        if (same(word, *words)) return 1;
    return 0;
}

/* The value of --name VALUE, --name=VALUE (one dash will do, as runc's library has it) or -b VALUE at *argument; else NULL. */
static const char *option(char **argument, const char *name, char brief) {
    const char *word = *argument;
    if (*word++ != '-') return 0;
    if (*word == '-') word++;
    else if (brief && word[0] == brief && (!word[1] || word[1] == '=')) return word[1] ? word + 2 : argument[1];
    while (*name && *word == *name) word++, name++;
    if (*name) return 0;
    return *word == '=' ? word + 1 : !*word ? argument[1] : 0;
}

/* Whether the argument is a global option whose value is the next argument. */
static int takes_next(const char *word) {
    if (*word++ != '-') return 0;
    if (*word == '-') word++;
    return among(word, global_options);
}

static char conf[CONF];
static char *arguments[ARGUMENTS];

/* Read OWN-PATH.conf into lines; the first is the runtime, the second the socket. */
static int read_conf(char **lines, int most) {
    char path[PATH + 8];
    long length = SYS4(readlinkat, AT_FDCWD, "/proc/self/exe", path, PATH);
    if (length <= 0 || length >= PATH) fail("cannot tell its own path", 0, length);
    memcpy(path + length, ".conf", 6);
    long fd = SYS4(openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) fail("cannot open ", path, fd);
    u64 size = 0;
    for (long n; size < sizeof conf - 1; size += n > 0 ? (u64)n : 0) {
        n = SYS3(read, fd, conf + size, sizeof conf - 1 - size);
        if (n < 0 && n != -EINTR) fail("cannot read ", path, n);
        if (n == 0) break;
    }
    SYS3(close, fd, 0, 0);
    int count = 0;
    char *start = conf;
    for (u64 i = 0; i < size; i++) {
        if (conf[i] != '\n') continue;
        conf[i] = 0;
        if (count == most) fail("too many lines: ", path, 0);
        lines[count++] = start;
        start = conf + i + 1;
    }
    if (size == sizeof conf - 1 || start != conf + size) fail("a line has no end: ", path, 0);
    if (count < 2 || lines[0][0] != '/' || lines[1][0] != '/') fail("names no runtime and no socket: ", path, 0);
    return count;
}

/* The marker that makes exec ask: DESK without .sock, /exec/, the id. */
static int marked(const char *socket, const char *id) {
    char path[PATH];
    struct text text = {path, path + sizeof path - 1, 0};
    u64 size = size_of(socket);
    if (size > 5 && same(socket + size - 5, ".sock")) size -= 5;
    add(&text, socket, size), put(&text, "/exec/"), put(&text, id);
    if (text.full) fail("a path is too long: ", id, 0);
    *text.at = 0;
    long there = SYS3(faccessat, AT_FDCWD, path, 0);
    if (there && there != -ENOENT) fail("cannot look for ", path, there);
    return !there;
}

__attribute__((used)) void begin(long *stack) {
    int argc = (int)stack[0];
    char **argv = (char **)(stack + 1), **environment = argv + argc + 1;
    const char *verb = 0, *bundle = ".", *process = 0, *found;
    SYS3(clock_gettime, CLOCK_MONOTONIC, &began, 0);
    for (int i = 1; i < argc; i++) {
        if (!verb) {
            if ((found = option(argv + i, "log", 0))) log_path = found;
            if (takes_next(argv[i])) i++;
            else if (among(argv[i], verbs)) verb = argv[i];
        } else {
            if ((found = option(argv + i, "bundle", 'b'))) bundle = found;
            if ((found = option(argv + i, "process", 'p'))) process = found;
        }
    }
    int count = read_conf(arguments, ARGUMENTS / 2);
    const char *runtime = arguments[0], *socket = arguments[1], *id = argc > 1 ? argv[argc - 1] : "";
    if (verb && (same(verb, "create") || same(verb, "run") || same(verb, "restore"))) {
        char path[PATH];
        struct text text = {path, path + sizeof path - 1, 0};
        put(&text, bundle), put(&text, "/config.json");
        if (text.full) fail("a path is too long: ", bundle, 0);
        *text.at = 0;
        ask(socket, "create", id, bundle, path);
    } else if (verb && same(verb, "exec") && process && marked(socket, id)) {
        ask(socket, "exec", id, "", process);
    }
    /* The runtime's own arguments go first, as the engine's wrapper would put them. */
    for (int i = 2; i < count; i++) arguments[i - 1] = arguments[i];
    if (argc + count >= ARGUMENTS) fail("too many arguments", 0, 0);
    for (int i = 1; i < argc; i++) arguments[count - 2 + i] = argv[i];
    arguments[count - 2 + (argc > 1 ? argc : 1)] = 0;
    fail("cannot run ", runtime, SYS3(execve, runtime, arguments, environment));
}
