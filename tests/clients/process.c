/* What the library leaves alone in a process, and what a process may do to it: signals, forks, small stacks, little memory, cancelled
 * threads. usage: process <way> <what> [number]. way: see dynamic.h. what: see main. Prints one line for each thing that a test may want to compare. */
#include "dynamic.h"
#include "problem.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct problem *small = &problems[0];

static miopenStatus_t forward_on(miopenHandle_t on, struct problem *p) {
    float alpha = 1, beta = 0;
    return miopenConvolutionForward(on, &alpha, p->x.descriptor, p->x.data, p->w.descriptor, p->w.data, p->convolution,
                                    miopenConvolutionFwdAlgoDirect, &beta, p->y.descriptor, p->y.data, NULL, 0);
}

static void set_up(void) {
    CHECK(miopenCreate(&handle));
    make_problem(small);
    prepare(small, FORWARD);
}

static int computes(void) {
    poison(small, FORWARD);
    miopenStatus_t status = forward_on(handle, small);
    wait_for_device();
    return !status && right(small, FORWARD);
}

static void tear_down(void) {
    destroy_problem(small);
    CHECK(miopenDestroy(handle));
}

static void on_thread(void *(*work)(void *), void *argument, size_t stack) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (stack) pthread_attr_setstacksize(&attributes, stack);
    if (pthread_create(&thread, &attributes, work, argument)) printf("no thread\n"), exit(1);
    pthread_join(thread, NULL);
}

/* ---- signals */

enum { SIGNALS = 65 };
struct signals {
    struct sigaction actions[SIGNALS];
    sigset_t mask;
    stack_t stack;
};

static void look(struct signals *s) {
    memset(s, 0, sizeof *s);
    for (int i = 1; i < SIGNALS; i++) {
        struct sigaction action;
        sigaction(i, NULL, &action);
        /* The rest of the structure is not the kernel's, and says nothing. */
        s->actions[i].sa_handler = action.sa_handler;
        s->actions[i].sa_flags = action.sa_flags;
        memcpy(&s->actions[i].sa_mask, &action.sa_mask, SIGNALS / 8);
    }
    pthread_sigmask(SIG_BLOCK, NULL, &s->mask);
    sigaltstack(NULL, &s->stack);
}

static void compare(const char *label, struct signals *before) {
    static struct signals after;
    look(&after);
    printf("%s: dispositions %d mask %d stack %d\n", label, !memcmp(before->actions, after.actions, sizeof after.actions),
           !memcmp(&before->mask, &after.mask, sizeof after.mask), !memcmp(&before->stack, &after.stack, sizeof after.stack));
}

static sigjmp_buf back;
static volatile sig_atomic_t faults;

static void on_fault(int number) {
    faults += number == SIGSEGV;
    siglongjmp(back, 1);
}

static void fault(void) {
    if (!sigsetjmp(back, 1)) *(volatile int *)8 = 1;
}

/* A thread with an alternate stack and a mask of its own. */
static void *with_own_stack(void *unused) {
    static char memory[64 << 10];
    stack_t own = {.ss_sp = memory, .ss_size = sizeof memory};
    struct signals before;
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    sigaltstack(&own, NULL);
    look(&before);
    destroy_problem(small); /* other descriptors, so that this thread records and plans too */
    make_problem(small);
    prepare(small, FORWARD);
    printf("computes %d\n", computes());
    compare("thread", &before);
    return unused;
}

static void signals(void) {
    static struct signals before;
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    look(&before);
    set_up();
    compare("described", &before);
    printf("computes %d\n", computes());
    compare("forwarded", &before);
    fault();
    action.sa_flags |= SA_NODEFER;
    sigaction(SIGSEGV, &action, NULL);
    look(&before);
    miopenSetConvolutionGroupCount(small->convolution, 1);
    printf("computes %d\n", computes());
    fault();
    on_thread(with_own_stack, NULL, 0);
    tear_down();
    compare("destroyed", &before);
    printf("faults %d\n", faults);
}

/* ---- forks */

static int child_computes(void) {
    alarm(120); /* against hangs */
    set_up();
    int good = computes();
    tear_down();
    return good;
}

static int fork_and_wait(int (*work)(void)) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (!child) _exit(work() ? 0 : 1);
    if (child < 0 || waitpid(child, &status, 0) != child) return -1;
    return status;
}

static void fork_first(void) {
    printf("child %d\n", fork_and_wait(child_computes));
    set_up();
    printf("parent %d\n", computes());
    tear_down();
}

static int child_of_child(void) {
    return child_computes() && fork_and_wait(child_computes) == 0;
}

/* The child has handle and descriptors of its parent's too. */
static int child_with_inherited(void) {
    alarm(120);
    return computes();
}

static void fork_after(void) {
    set_up();
    printf("parent %d\n", computes());
    printf("inherited %d\n", fork_and_wait(child_with_inherited));
    printf("child %d\n", fork_and_wait(child_of_child));
    printf("parent %d\n", computes());
    tear_down();
}

static pthread_barrier_t ready;
static atomic_int built;

/* Problems that nobody has seen, so that each is translated, a plan is built and a trace line is written. Nothing is executed, and native
 * makes no objects: its locks are its own. */
static void *keep_building(void *stop) {
    static atomic_int next;
    miopenHandle_t own;
    miopenTensorDescriptor_t x, w, y;
    miopenConvolutionDescriptor_t c;
    CHECK(miopenCreateTensorDescriptor(&x));
    CHECK(miopenCreateTensorDescriptor(&w));
    CHECK(miopenCreateTensorDescriptor(&y));
    CHECK(miopenCreateConvolutionDescriptor(&c));
    CHECK(miopenInitConvolutionDescriptor(c, miopenConvolution, 0, 0, 1, 1, 1, 1));
    CHECK(miopenSet4dTensorDescriptor(w, miopenFloat, 1, 1, 1, 1));
    CHECK(miopenCreate(&own));
    pthread_barrier_wait(&ready);
    while (!*(atomic_int *)stop) {
        int size = 1 + atomic_fetch_add(&next, 1);
        size_t bytes;
        CHECK(miopenSet4dTensorDescriptor(x, miopenFloat, 1, 1, 1, size));
        CHECK(miopenSet4dTensorDescriptor(y, miopenFloat, 1, 1, 1, size));
        CHECK(miopenConvolutionForwardGetWorkSpaceSize(own, w, x, c, y, &bytes));
        built++;
    }
    CHECK(miopenDestroy(own));
    return NULL;
}

static void fork_busy(int forks) {
    static atomic_int stop;
    pthread_t threads[3];
    int good = 0;
    pthread_barrier_init(&ready, NULL, 4);
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, keep_building, &stop);
    pthread_barrier_wait(&ready);
    for (int i = 0; i < forks; i++) {
        int status = fork_and_wait(child_computes);
        if (status) printf("child %d: %#x\n", i, status);
        good += !status;
        usleep(100 + 37 * (i % 20));
    }
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    printf("good %d of %d, built more %d\n", good, forks, built > forks);
}

static void *first_use(void *unused) {
    set_up();
    printf("parent %d\n", computes());
    return unused;
}

/* A fork so many microseconds after another thread began to use the library for the first time. */
static void fork_during_first(int delay) {
    pthread_t thread;
    pthread_create(&thread, NULL, first_use, NULL);
    if (delay) usleep(delay);
    pid_t child = fork();
    if (!child) {
        memset(problems, 0, sizeof problems);
        problems[0].name = "child", problems[0].groups = 1;
        _exit(child_computes() ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    pthread_join(thread, NULL);
    printf("child %d\n", status);
}

/* ---- little memory */

static void *compute_alone(void *good) {
    struct problem own = {.name = "thread", .groups = 1};
    miopenHandle_t on;
    CHECK(miopenCreate(&on));
    own = *small;
    own.y.data = allocate(own.y.count * sizeof(float));
    miopenStatus_t status = forward_on(on, &own);
    wait_for_device();
    atomic_fetch_add((atomic_int *)good, !status && !memcmp(own.y.data, small->y.data, own.y.count * sizeof(float)));
    CHECK(miopenDestroy(on));
    free(own.y.data);
    return NULL;
}

static void limit(int resource, rlim_t bytes) {
    struct rlimit most = {bytes, bytes};
    if (setrlimit(resource, &most)) perror("setrlimit"), exit(1);
}

static void limited(int resource, int megabytes) {
    enum { HANDLES = 64, THREADS = 200 };
    static miopenHandle_t handles[HANDLES];
    static pthread_t threads[THREADS];
    atomic_int good = 0;
    limit(resource, (rlim_t)megabytes << 20);
    set_up();
    printf("computes %d\n", computes());
    int served = 0;
    for (int i = 0; i < HANDLES; i++) CHECK(miopenCreate(&handles[i]));
    for (int i = 0; i < HANDLES; i++) {
        poison(small, FORWARD);
        miopenStatus_t status = forward_on(handles[i], small);
        wait_for_device();
        served += !status && right(small, FORWARD);
    }
    for (int i = 0; i < HANDLES; i++) CHECK(miopenDestroy(handles[i]));
    printf("handles %d\n", served);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    int started = 0;
    for (; started < THREADS; started++) if (pthread_create(&threads[started], &attributes, compute_alone, &good)) break;
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    printf("threads %d right %d\n", started, good);
    tear_down();
}

static rlim_t address_space(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (!file || fscanf(file, "%lu", &pages) != 1) exit(1);
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* Only so much more than there is already, from when all is described. */
static void little_more(int kilobytes) {
    set_up();
    limit(RLIMIT_AS, address_space() + ((rlim_t)kilobytes << 10));
    printf("computes %d\n", computes());
}

/* ---- small stacks */

static void *all_of_it(void *unused) {
    set_up();
    printf("thread %d\n", computes());
    return unused;
}

static void *once_more(void *unused) {
    printf("thread %d\n", computes());
    return unused;
}

/* A stack of exactly so many kilobytes, below which nothing may be touched. */
static void on_stack(void *(*work)(void *), int kilobytes) {
    size_t size = (size_t)kilobytes << 10, guard = 256 << 10;
    char *memory = mmap(NULL, size + guard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    pthread_t thread;
    if (memory == MAP_FAILED) exit(1);
    mprotect(memory, guard, PROT_NONE);
    memset(memory + guard, 0x5a, size);
    pthread_attr_init(&attributes);
    int refused = pthread_attr_setstack(&attributes, memory + guard, size);
    if (!refused) refused = pthread_create(&thread, &attributes, work, NULL);
    if (refused) {
        printf("thread refused\n");
        return;
    }
    pthread_join(thread, NULL);
    size_t untouched = 0;
    while (untouched < size && memory[guard + untouched] == 0x5a) untouched++;
    printf("stack %zu of %zu\n", size - untouched, size);
}

/* ---- cancellation */

static atomic_int reached;

/* The cancellation is pending from the beginning: it may happen in this function, and nowhere in a call. */
static void *cancelled(void *unused) {
    pthread_cancel(pthread_self());
    set_up();
    reached++;
    miopenStatus_t status = forward_on(handle, small);
    reached += !status;
    status = forward_on(handle, small);
    reached += !status;
    miopenDestroy(handle);
    reached++;
    pthread_testcancel();
    return unused;
}

static void *call_for_ever(void *unused) {
    for (;;) {
        if (forward_on(handle, small)) return unused;
        pthread_testcancel();
    }
}

static void cancel(void) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, cancelled, NULL);
    pthread_join(thread, &result);
    printf("reached %d cancelled %d\n", reached, result == PTHREAD_CANCELED);
    CHECK(miopenCreate(&handle));
    int ended = 0;
    for (int i = 0; i < 50; i++) {
        pthread_create(&thread, NULL, call_for_ever, NULL);
        usleep(100 + 53 * i);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        ended += result == PTHREAD_CANCELED;
    }
    printf("ended %d\n", ended);
    wait_for_device();
    printf("computes %d\n", computes());
}

/* ---- the end of a thread */

static int late[2] = {-1, -1};

/* As thread_local objects of C++ do, whose destructors run after those of everything the thread used later: here by a key, whose destructor
 * comes after all of them. */
static void at_thread_end(void *own) {
    miopenTensorDescriptor_t made;
    late[0] = miopenCreateTensorDescriptor(&made);
    CHECK(miopenSet4dTensorDescriptor(made, miopenFloat, N, K, H, H));
    miopenDestroyTensorDescriptor(small->y.descriptor);
    small->y.descriptor = made;
    late[1] = miopenDestroy((miopenHandle_t)own);
}

static void *with_late_calls(void *key) {
    set_up();
    pthread_setspecific(*(pthread_key_t *)key, handle);
    if (!computes()) printf("wrong\n");
    return key;
}

static void late_thread(void) {
    pthread_key_t key;
    pthread_key_create(&key, at_thread_end);
    on_thread(with_late_calls, &key, 0);
    printf("late %d %d\n", late[0], late[1]);
    CHECK(miopenCreate(&handle));
    printf("again %d\n", computes());
    tear_down();
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const char *what_to_do = argv[2];
    int number = argc > 3 ? atoi(argv[3]) : 0;
    alarm(300); /* against hangs */
    library = open_library(argv[1]);
    setvbuf(stdout, NULL, _IOLBF, 4096);
    if (!strcmp(what_to_do, "signals")) signals();
    if (!strcmp(what_to_do, "fork-first")) fork_first();
    if (!strcmp(what_to_do, "fork-after")) fork_after();
    if (!strcmp(what_to_do, "fork-busy")) fork_busy(number);
    if (!strcmp(what_to_do, "fork-during-first")) fork_during_first(number);
    if (!strcmp(what_to_do, "limited")) limited(RLIMIT_AS, number);
    /* What may be written to and is nobody else's: that is what the kernel counts where it does not overcommit. */
    if (!strcmp(what_to_do, "limited-data")) limited(RLIMIT_DATA, number);
    if (!strcmp(what_to_do, "little-more")) little_more(number);
    if (!strcmp(what_to_do, "stack")) on_stack(all_of_it, number);
    if (!strcmp(what_to_do, "stack-warm")) set_up(), computes(), on_stack(once_more, number);
    if (!strcmp(what_to_do, "cancel")) cancel();
    if (!strcmp(what_to_do, "late-thread")) late_thread();
    return 0;
}
