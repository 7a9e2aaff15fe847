/* An OCI runtime front for test engines on hosts whose root lacks CAP_SYS_RESOURCE.
 *
 * There, runc cannot lower an oom_score_adj and cannot grant that capability, so ordinary pods would not start.  The
 * front takes both out of the container's configuration, then becomes runc (REAL_RUNTIME, set when it is compiled):
 *   process.oomScoreAdj       a negative value becomes 0
 *   process.capabilities.*    "CAP_SYS_RESOURCE" is removed from each list
 * It does so in BUNDLE/config.json (create, run, restore) and in the file of exec's --process, whose top level is the
 * process itself.  Only these two places of the JSON text change: it is walked value by value, so that an argument or
 * an annotation that looks alike stays as it is.  Text that is no JSON is left to runc to complain about.
 * Rule: opencontainers/runtime-spec config.md, "Linux Process".
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef REAL_RUNTIME
#error "compile with -DREAL_RUNTIME='\"/path/of/runc\"'"
#endif

enum place { ELSEWHERE, TOP, PROCESS, CAPABILITIES, CAPABILITY_LIST };

static const char *in; /* what is left to read; the text ends with a NUL */
static char *out;      /* the text so far; it never grows, so the input's size is enough */
static size_t length;
static int broken;

static void put(const char *text, size_t size) {
    memmove(out + length, text, size);
    length += size;
}

static void blanks(void) {
    size_t size = strspn(in, " \t\r\n");
    put(in, size);
    in += size;
}

/* The end of the string that starts at in[0] == '"', just after its closing quote; NULL if there is none. */
static const char *string_end(void) {
    const char *p = in + 1;
    while (*p && *p != '"') p += *p == '\\' && p[1] ? 2 : 1;
    return *p == '"' ? p + 1 : NULL;
}

static int is(const char *start, const char *end, const char *word) {
    return (size_t)(end - start) == strlen(word) && !memcmp(start, word, end - start);
}

static enum place below(enum place here, const char *key, const char *end, int exec_file) {
    if (here == TOP && !exec_file && is(key, end, "\"process\"")) return PROCESS;
    if ((here == PROCESS || (here == TOP && exec_file)) && is(key, end, "\"capabilities\"")) return CAPABILITIES;
    if (here == CAPABILITIES) return CAPABILITY_LIST;
    return ELSEWHERE;
}

static void value(enum place here, int exec_file);

static void object(enum place here, int exec_file) {
    put(in++, 1);
    for (;;) {
        blanks();
        if (*in == '}' || *in == ',') {
            int done = *in == '}';
            put(in++, 1);
            if (done) return;
            continue;
        }
        const char *key = in, *end = *in == '"' ? string_end() : NULL;
        if (!end) { broken = 1; return; }
        put(key, end - key);
        in = end;
        blanks();
        if (*in != ':') { broken = 1; return; }
        put(in++, 1);
        blanks();
        int score = (here == PROCESS || (here == TOP && exec_file)) && is(key, end, "\"oomScoreAdj\"");
        if (score && *in == '-') {
            put("0", 1);
            in += strspn(in, "-+.eE0123456789");
            continue;
        }
        value(below(here, key, end, exec_file), exec_file);
        if (broken) return;
    }
}

static void array(enum place here, int exec_file) {
    int first = 1;
    put(in++, 1);
    for (;;) {
        blanks();
        if (*in == ',') { in++; continue; } /* written again before each element that stays */
        if (*in == ']') { put(in++, 1); return; }
        const char *end = *in == '"' ? string_end() : NULL;
        if (here == CAPABILITY_LIST && end && is(in, end, "\"CAP_SYS_RESOURCE\"")) { in = end; continue; }
        if (!first) put(",", 1);
        first = 0;
        value(ELSEWHERE, exec_file);
        if (broken) return;
    }
}

static void value(enum place here, int exec_file) {
    const char *end;
    if (*in == '{') {
        object(here, exec_file);
    } else if (*in == '[') {
        array(here, exec_file);
    } else if (*in == '"') {
        if (!(end = string_end())) { broken = 1; return; }
        put(in, end - in);
        in = end;
    } else {
        size_t size = strcspn(in, ",]} \t\r\n");
        if (!size) { broken = 1; return; }
        put(in, size);
        in += size;
    }
}

static void fail(const char *path) {
    fprintf(stderr, "runtime front: %s: %s\n", path, strerror(errno));
    exit(125);
}

static void rewrite(const char *path, int exec_file) {
    struct stat status;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return; /* runc names the missing file better */
    if (fstat(file, &status)) fail(path);
    char *text = malloc(status.st_size + 1);
    out = malloc(status.st_size + 1);
    if (!text || !out) fail(path);
    ssize_t got = 0;
    while (got < status.st_size) {
        ssize_t n = read(file, text + got, status.st_size - got);
        if (n < 0) fail(path);
        if (n == 0) break;
        got += n;
    }
    text[got] = 0;
    in = text;
    blanks();
    value(TOP, exec_file);
    blanks();
    if (!broken && !*in && (length != (size_t)got || memcmp(out, text, length))) {
        for (size_t done = 0; done < length;) {
            ssize_t n = pwrite(file, out + done, length - done, done);
            if (n < 0) fail(path);
            done += n;
        }
        if (ftruncate(file, length)) fail(path);
    }
    close(file);
}

/* The value of option `name` (--name VALUE, --name=VALUE, or its short form) at argv[i]; NULL if argv[i] is another. */
static const char *option(char **argv, int i, const char *name, const char *brief) {
    size_t size = strlen(name);
    if (!strcmp(argv[i], name) || !strcmp(argv[i], brief)) return argv[i + 1];
    return !strncmp(argv[i], name, size) && argv[i][size] == '=' ? argv[i] + size + 1 : NULL;
}

int main(int argc, char **argv) {
    const char *verb = NULL, *bundle = ".", *process = NULL, *found;
    for (int i = 1; i < argc; i++) {
        if (!verb && (!strcmp(argv[i], "create") || !strcmp(argv[i], "run") || !strcmp(argv[i], "restore") ||
                      !strcmp(argv[i], "exec")))
            verb = argv[i];
        if (!verb) continue; /* a global option or its value */
        if ((found = option(argv, i, "--bundle", "-b"))) bundle = found;
        if ((found = option(argv, i, "--process", "-p"))) process = found;
    }
    if (verb && strcmp(verb, "exec")) {
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s/config.json", bundle) >= (int)sizeof path) {
            errno = ENAMETOOLONG;
            fail(bundle);
        }
        rewrite(path, 0);
    } else if (verb && process) {
        rewrite(process, 1);
    }
    argv[0] = REAL_RUNTIME;
    execv(REAL_RUNTIME, argv);
    fail(REAL_RUNTIME);
}
