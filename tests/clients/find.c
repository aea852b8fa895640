/* Convolutions in the classic style, the way PyTorch and ONNX Runtime call them: how much workspace, Find on the real tensors, and then
 * the algorithm of the best result with the memory that it names. All directions.
 *
 * usage: find WORD,... [N]   of plain benchmark deterministic request4 noworkspace short timed nofind misaligned shared other-handle captured;
 *                            noinput nooutput noalpha, which make a call without one first; and algorithm, which runs algorithm N in
 *                            place of what Find says
 * Prints one line for each thing that a test may want to compare. */
#include "problem.h"

enum { MOST = 4 };

static miopenStatus_t workspace_size(struct problem *p, enum direction direction, size_t *bytes) {
    miopenTensorDescriptor_t x = p->x.descriptor, w = p->w.descriptor, y = p->y.descriptor;
    switch (direction) {
    case FORWARD: return miopenConvolutionForwardGetWorkSpaceSize(handle, w, x, p->convolution, y, bytes);
    case BACKWARD_DATA: return miopenConvolutionBackwardDataGetWorkSpaceSize(handle, y, w, p->convolution, x, bytes);
    default: return miopenConvolutionBackwardWeightsGetWorkSpaceSize(handle, y, x, p->convolution, w, bytes);
    }
}

static miopenStatus_t find(struct problem *p, enum direction direction, int request, int *count, miopenConvAlgoPerf_t *perf,
                           void *workspace, size_t bytes, int exhaustive) {
    struct tensor *x = &p->x, *w = &p->w, *y = &p->y;
    miopenConvolutionDescriptor_t c = p->convolution;
    switch (direction) {
    case FORWARD:
        return miopenFindConvolutionForwardAlgorithm(handle, x->descriptor, x->data, w->descriptor, w->data, c, y->descriptor, y->data,
                                                     request, count, perf, workspace, bytes, exhaustive);
    case BACKWARD_DATA:
        return miopenFindConvolutionBackwardDataAlgorithm(handle, y->descriptor, y->data, w->descriptor, w->data, c, x->descriptor,
                                                          x->data, request, count, perf, workspace, bytes, exhaustive);
    default:
        return miopenFindConvolutionBackwardWeightsAlgorithm(handle, y->descriptor, y->data, x->descriptor, x->data, c, w->descriptor,
                                                             w->data, request, count, perf, workspace, bytes, exhaustive);
    }
}

static const float unscaled = 1;
static const float *alpha = &unscaled;

/* The union of a result holds the number that the direction's own enum has; all three enums agree in it. */
static miopenStatus_t run(struct problem *p, enum direction direction, int algorithm, void *workspace, size_t bytes) {
    struct tensor *x = &p->x, *w = &p->w, *y = &p->y;
    miopenConvolutionDescriptor_t c = p->convolution;
    float zero = 0;
    switch (direction) {
    case FORWARD:
        return miopenConvolutionForward(handle, alpha, x->descriptor, x->data, w->descriptor, w->data, c,
                                        (miopenConvFwdAlgorithm_t)algorithm, &zero, y->descriptor, y->data, workspace, bytes);
    case BACKWARD_DATA:
        return miopenConvolutionBackwardData(handle, alpha, y->descriptor, y->data, w->descriptor, w->data, c,
                                             (miopenConvBwdDataAlgorithm_t)algorithm, &zero, x->descriptor, x->data, workspace, bytes);
    default:
        return miopenConvolutionBackwardWeights(handle, alpha, y->descriptor, y->data, x->descriptor, x->data, c,
                                                (miopenConvBwdWeightsAlgorithm_t)algorithm, &zero, w->descriptor, w->data, workspace,
                                                bytes);
    }
}

/* The steady state: as often as the program wants, always with what Find said. */
static void step(struct problem *p, enum direction direction, int algorithm, size_t bytes) {
    if (is("short") && bytes > 0) bytes--;
    void *workspace = bytes > 0 && !is("noworkspace") ? allocate(bytes) : NULL;
    if (!workspace) bytes = 0;
    for (int i = 0; i < 2; i++) {
        poison(p, direction);
        show(p, direction, run(p, direction, algorithm, workspace, bytes));
    }
    free(workspace);
}

/* What Find was asked for, but with a null pointer among the arguments. Later calls must not suffer from it. */
static void step_without(struct problem *p, enum direction direction, int algorithm) {
    struct problem lacking = *p;
    if (is("noinput")) (direction == FORWARD ? &lacking.x : &lacking.y)->data = NULL;
    if (is("nooutput")) output_of(&lacking, direction)->data = NULL;
    if (is("noalpha")) alpha = NULL;
    poison(p, direction);
    show_refusal(p, direction, run(&lacking, direction, algorithm, NULL, 0));
    alpha = &unscaled;
}

/* Calls a function of HIP, which a program that captures its stream is linked with. */
static void *hip;
#define HIP(name, types, ...) do { \
    int (*f_) types = (int (*) types)dlsym(hip, #name); \
    int error_ = f_ ? f_(__VA_ARGS__) : -1; \
    if (error_) { printf("%s: %d\n", #name, error_); exit(1); } \
} while (0)

static miopenAcceleratorQueue_t stream;

/* PyTorch's graphs: the step is captured instead of run, and the graph is launched. */
static void step_captured(struct problem *p, enum direction direction, int algorithm, size_t bytes) {
    void *graph, *executable, *workspace = bytes > 0 && !is("noworkspace") ? allocate(bytes) : NULL;
    if (!workspace) bytes = 0;
    poison(p, direction);
    HIP(hipStreamBeginCapture, (void *, int), stream, 1);
    miopenStatus_t status = run(p, direction, algorithm, workspace, bytes);
    HIP(hipStreamEndCapture, (void *, void **), stream, &graph);
    SAY("nothing ran yet %d", isnan(output_of(p, direction)->data[0]) != 0);
    HIP(hipGraphInstantiate, (void **, void *, void *, char *, size_t), &executable, graph, NULL, NULL, 0);
    for (int i = 0; i < 2; i++) {
        poison(p, direction);
        HIP(hipGraphLaunch, (void *, void *), executable, stream);
        HIP(hipStreamSynchronize, (void *), stream);
        show(p, direction, status);
    }
    HIP(hipGraphExecDestroy, (void *), executable);
    HIP(hipGraphDestroy, (void *), graph);
    free(workspace);
}

static void one(struct problem *p, enum direction direction, int stored) {
    miopenConvAlgoPerf_t perf[MOST + 1];
    int count = -1, request = is("request4") || is("algorithm") ? MOST : 1;
    size_t bytes = 0;
    prepare(p, direction);
    CHECK(workspace_size(p, direction, &bytes));
    SAY("bytes %zu", bytes);
    if (is("nofind")) {
        poison(p, direction);
        show(p, direction, run(p, direction, miopenConvolutionFwdAlgoImplicitGEMM, NULL, 0));
        return;
    }
    if (is("short") && bytes > 0) bytes--;
    void *workspace = bytes > 0 && !is("noworkspace") ? allocate(bytes) : NULL;
    if (!workspace) bytes = 0;
    memset(perf, 0xff, sizeof perf);
    miopenStatus_t status = find(p, direction, request, &count, perf, workspace, bytes, is("benchmark"));
    wait_for_device();
    free(workspace);
    show_time();
    SAY("find %d, within what was asked for %d", status, count >= 1 && count <= request);
    if (status || count < 1 || count > request) return;
    SAY("count %d", count);
    miopenConvAlgoPerf_t untouched;
    memset(&untouched, 0xff, sizeof untouched);
    SAY("nothing written behind the results %d", !memcmp(&perf[request], &untouched, sizeof untouched));
    for (int i = 0; i < count; i++) SAY("perf %d %zu", (int)perf[i].fwd_algo, perf[i].memory);
    for (int i = 0; i < count; i++) SAY("in the workspace %d, timed %d", perf[i].memory <= bytes, perf[i].time >= 0);
    struct problem moved = elsewhere(p, direction);
    if (is("noinput") || is("nooutput") || is("noalpha")) step_without(&moved, direction, (int)perf[0].fwd_algo);
    if (is("captured")) step_captured(&moved, direction, (int)perf[0].fwd_algo, perf[0].memory);
    else if (is("algorithm")) step(&moved, direction, stored, bytes);
    else for (int i = 0; i < (is("request4") ? count : 1); i++) step(&moved, direction, (int)perf[i].fwd_algo, perf[i].memory);
    if (is("other-handle")) {
        /* Find's results are the handle's; one that has not seen it may still be asked to run. */
        miopenHandle_t first = handle;
        CHECK(miopenCreate(&handle));
        step(&moved, direction, (int)perf[0].fwd_algo, perf[0].memory);
        CHECK(miopenDestroy(handle));
        handle = first;
    }
}

int main(int argc, char **argv) {
    what = argc > 1 ? argv[1] : "plain";
    int stored = argc > 2 ? atoi(argv[2]) : 0;
    CHECK(miopenCreate(&handle));
    if (is("timed")) CHECK(miopenEnableProfiling(handle, true));
    if (is("captured")) {
        hip = dlopen("libamdhip64.so.7", RTLD_LAZY);
        HIP(hipStreamCreateWithFlags, (void *, unsigned), &stream, 1);
    }
    for (int i = 0; i < PROBLEMS; i++) {
        struct problem *p = &problems[i];
        make_problem(p);
        /* PyTorch says it of every descriptor. */
        CHECK(miopenSetConvolutionAttribute(p->convolution, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, is("deterministic")));
        if (is("benchmark")) CHECK(miopenSetConvolutionFindMode(p->convolution, miopenConvolutionFindModeNormal));
        for (int d = 0; d < DIRECTIONS; d++) {
            CHECK(miopenSetStream(handle, stream));
            one(p, (enum direction)d, stored);
        }
        destroy_problem(p);
    }
    CHECK(miopenDestroy(handle));
    return 0;
}
