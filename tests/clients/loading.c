/* How the library comes into a process, what it does there before it is asked for anything, and what is left at the end.
 *
 * usage: loading <way> <what>. way: see dynamic.h. what: see main. Prints one line for each thing that a test may want to compare. The
 * functions that a library would use to look at its environment, to open files and to start threads are this program's: they count who calls
 * them, and go on. */
#include "dynamic.h"
#include "problem.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- who does what: only what code in the shim's own file does is counted */

enum watched { READS, FILES, THREADS, MAPPINGS, WATCHED };
static const char *const watched_names[WATCHED] = {"environment", "files", "threads", "mappings"};
static atomic_int counts[WATCHED];

static int is_shims(void *address) {
    Dl_info info;
    const char *name = dladdr(address, &info) && info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    return name && !strcmp(name, "/libMIOpen.so.1");
}

#define COUNT(what) do { if (is_shims(__builtin_return_address(0))) counts[what]++; } while (0)
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

char *getenv(const char *name) {
    COUNT(READS);
    return NEXT(getenv)(name);
}

char *secure_getenv(const char *name) {
    COUNT(READS);
    return NEXT(secure_getenv)(name);
}

int open(const char *path, int flags, ...) {
    COUNT(FILES);
    __builtin_va_list arguments;
    __builtin_va_start(arguments, flags);
    int mode = __builtin_va_arg(arguments, int);
    __builtin_va_end(arguments);
    return NEXT(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    COUNT(FILES);
    __builtin_va_list arguments;
    __builtin_va_start(arguments, flags);
    int mode = __builtin_va_arg(arguments, int);
    __builtin_va_end(arguments);
    return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64"))(path, flags, mode);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    COUNT(THREADS);
    return NEXT(pthread_create)(thread, attributes, start, argument);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    COUNT(MAPPINGS);
    return NEXT(mmap)(address, length, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    COUNT(MAPPINGS);
    return NEXT(mmap)(address, length, protection, flags, fd, offset);
}

static int entries(const char *folder) {
    DIR *opened = opendir(folder);
    int count = 0;
    while (opened && readdir(opened)) count++;
    if (opened) closedir(opened);
    return count - 3; /* itself, and its own descriptor or the first thread */
}

/* Code that comes from no file: the translator's. Of files, those that matter. */
static void show_maps(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096], last[4096] = "";
    int anonymous = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/'), *rights = strchr(line, ' ');
        if (!path && rights && rights[3] == 'x' && !strchr(line, '[')) anonymous++;
        if (!path || !strcmp(path, last)) continue;
        strcpy(last, path);
        path[strcspn(path, "\n")] = 0;
        if (strstr(path, "libMIOpen") || strstr(path, "libhipdnn") || strstr(path, "libamdhip64")) printf(" %s", path);
    }
    if (maps) fclose(maps);
    printf(" code %d", anonymous);
}

static void stage(const char *name) {
    printf("%s:", name);
    for (int i = 0; i < WATCHED; i++) printf(" %s %d", watched_names[i], counts[i]);
    printf(" descriptors %d tasks %d maps", entries("/proc/self/fd"), entries("/proc/self/task"));
    show_maps();
    printf("\n");
}

/* ---- who serves */

static void who_serves(void) {
    Dl_info info;
    if (dladdr((void *)miopenCreate, &info)) printf("serves %s\n", info.dli_fname);
}

/* ---- work */

static struct problem *small = &problems[0];

static miopenStatus_t forward(void) {
    float alpha = 1, beta = 0;
    return miopenConvolutionForward(handle, &alpha, small->x.descriptor, small->x.data, small->w.descriptor, small->w.data,
                                    small->convolution, miopenConvolutionFwdAlgoDirect, &beta, small->y.descriptor, small->y.data, NULL, 0);
}

static void set_up(void) {
    CHECK(miopenCreate(&handle));
    make_problem(small);
    prepare(small, FORWARD);
}

static void compute(const char *label) {
    poison(small, FORWARD);
    miopenStatus_t status = forward();
    wait_for_device();
    printf("%s: status %d right %d\n", label, status, right(small, FORWARD));
}

static void tear_down(void) {
    destroy_problem(small);
    CHECK(miopenDestroy(handle));
}

static void version(void) {
    size_t major = 0, minor = 0, patch = 0;
    miopenStatus_t status = miopenGetVersion(&major, &minor, &patch);
    printf("version: status %d, %zu.%zu.%zu\n", status, major, minor, patch);
}

/* What the library does before the call that needs it. */
static void inert(void) {
    stage("loaded");
    version();
    stage("first call");
    set_up();
    stage("described");
    compute("forward");
    stage("forwarded");
    compute("again");
    stage("again");
    tear_down();
    stage("destroyed");
}

/* The environment counts as it was at the first call; afterwards a program may change it as it likes, from another thread too. */
static void *change(void *stop) {
    char text[32];
    for (unsigned i = 0; !*(atomic_int *)stop; i++) snprintf(text, sizeof text, "%u", i), setenv("MIOPEN_HIPDNN_TRACE", text, 1);
    return NULL;
}

static void late_environment(void) {
    static atomic_int stop;
    pthread_t thread;
    version();
    int reads = counts[READS];
    setenv("MIOPEN_HIPDNN_FORWARDING", "1", 1);
    pthread_create(&thread, NULL, change, &stop);
    set_up();
    for (int i = 0; i < 20; i++) compute("late");
    tear_down();
    stop = 1;
    pthread_join(thread, NULL);
    printf("read %d, later %d\n", reads > 0, counts[READS] - reads);
    stage("end");
}

/* Unloading: nobody can, so the state stays, and a second opening finds it. */
static volatile sig_atomic_t signalled;

static void on_signal(int number) {
    signalled += number == SIGUSR1;
}

/* One that came with the program is opened once more, by its file. */
static const char *opened(const char *way) {
    static char by_file[4096] = "local:";
    Dl_info info;
    if (library || !dladdr((void *)miopenCreate, &info)) return way;
    library = open_library(strncat(by_file, info.dli_fname, sizeof by_file - 7));
    return by_file;
}

static void unload(const char *way) {
    set_up();
    way = opened(way);
    compute("before");
    void *first = (void *)miopenCreate;
    signal(SIGUSR1, on_signal);
    int same = 1, rounds = 100;
    for (int i = 0; i < rounds; i++) {
        same &= !dlclose(library);
        raise(SIGUSR1);
        library = open_library(way);
        same &= (void *)miopenCreate == first;
        poison(small, FORWARD);
        same &= !forward();
        wait_for_device();
        same &= right(small, FORWARD);
    }
    printf("rounds %d same %d signals %d\n", rounds, same, signalled == rounds);
    tear_down();
    stage("end");
}

static void *call_until(void *stop) {
    __auto_type function = &*miopenConvolutionForward;
    float alpha = 1, beta = 0;
    long failures = 0;
    while (!*(atomic_int *)stop)
        failures += !!function(handle, &alpha, small->x.descriptor, small->x.data, small->w.descriptor, small->w.data, small->convolution,
                               miopenConvolutionFwdAlgoDirect, &beta, small->y.descriptor, small->y.data, NULL, 0);
    return (void *)failures;
}

/* dlclose while another thread is inside, and the end of threads that used the library, after it. */
static void unload_in_use(const char *way) {
    static atomic_int stop;
    pthread_t thread;
    void *failures;
    set_up();
    way = opened(way);
    pthread_create(&thread, NULL, call_until, &stop);
    for (int i = 0; i < 200; i++) {
        dlclose(library);
        library = open_library(way);
    }
    dlclose(library);
    stop = 1;
    pthread_join(thread, &failures);
    printf("failures %ld\n", (long)failures);
}

/* A second consumer opens it as the first did not: it is the same library with the same state. */
static void second_consumer(const char *way) {
    char other[4096] = "global:";
    void *first = library;
    set_up();
    compute("first");
    library = open_library(strncat(other, strchr(way, ':') + 1, sizeof other - 8));
    printf("same %d\n", library == first);
    compute("second");
    tear_down();
}

/* ---- the end of the process */

static const char *late;

static void after_main(void) {
    if (!strcmp(late, "forward")) compute("late");
    if (!strcmp(late, "destroy")) printf("late: status %d\n", miopenDestroy(handle));
    fflush(stdout);
}

/* Runs after main, and after all that was registered with atexit later than this. */
__attribute__((destructor)) static void destructor(void) {
    if (late) after_main();
}

static void *exit_now(void *code) {
    usleep(20000);
    exit(*(int *)code);
}

static void ending(const char *how) {
    static atomic_int never;
    static int code = 7;
    pthread_t thread;
    set_up();
    compute("before");
    fflush(stdout);
    if (!strcmp(how, "leak")) exit(7);
    if (!strcmp(how, "quick")) quick_exit(7);
    if (!strcmp(how, "late-forward")) late = "forward", exit(7);
    if (!strcmp(how, "late-destroy")) late = "destroy", exit(7);
    if (!strcmp(how, "thread")) pthread_create(&thread, NULL, exit_now, &code), call_until(&never);
    if (!strcmp(how, "sigterm")) {
        pthread_create(&thread, NULL, call_until, &never);
        usleep(20000);
        raise(SIGTERM);
    }
    /* Only the first thread ends; the process with the other one. */
    if (!strcmp(how, "main-thread")) pthread_create(&thread, NULL, exit_now, &code), pthread_exit(NULL);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    alarm(300); /* against hangs */
    library = open_library(argv[1]);
    const char *what = argv[2];
    if (!strcmp(what, "inert")) inert();
    else if (!strcmp(what, "environment")) late_environment();
    else if (!strcmp(what, "unload")) unload(argv[1]);
    else if (!strcmp(what, "second")) second_consumer(argv[1]);
    else if (!strcmp(what, "unload-in-use")) unload_in_use(argv[1]);
    else if (!strncmp(what, "exit:", 5)) ending(what + 5);
    else {
        set_up();
        printf("secure %lu\n", getauxval(AT_SECURE));
        who_serves();
        compute("plain");
        tear_down();
        stage("end");
    }
    return 0;
}
