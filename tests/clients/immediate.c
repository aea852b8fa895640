/* Convolutions in immediate mode, the way XLA and PyTorch's immediate flag call them: how many solutions, the list of them, workspace and
 * compilation of each, and then execution by number; XLA times all of them and keeps the fastest. All directions.
 *
 * usage: immediate WORD,... [ID]   of all max1 many timed uncompiled deterministic misaligned shared other-handle;
 *                                  stored, which runs solution ID instead of those listed; unknown, which asks for ID alone
 * Prints one line for each thing that a test may want to compare. */
#include "problem.h"

/* PyTorch has room for this many, and takes more for an error. */
enum { ROOM = 10 };

static miopenStatus_t count_solutions(struct problem *p, enum direction direction, size_t *count) {
    miopenTensorDescriptor_t x = p->x.descriptor, w = p->w.descriptor, y = p->y.descriptor;
    switch (direction) {
    case FORWARD: return miopenConvolutionForwardGetSolutionCount(handle, w, x, p->convolution, y, count);
    case BACKWARD_DATA: return miopenConvolutionBackwardDataGetSolutionCount(handle, y, w, p->convolution, x, count);
    default: return miopenConvolutionBackwardWeightsGetSolutionCount(handle, y, x, p->convolution, w, count);
    }
}

static miopenStatus_t list_solutions(struct problem *p, enum direction direction, size_t most, size_t *count,
                                     miopenConvSolution_t *solutions) {
    miopenTensorDescriptor_t x = p->x.descriptor, w = p->w.descriptor, y = p->y.descriptor;
    miopenConvolutionDescriptor_t c = p->convolution;
    switch (direction) {
    case FORWARD: return miopenConvolutionForwardGetSolution(handle, w, x, c, y, most, count, solutions);
    case BACKWARD_DATA: return miopenConvolutionBackwardDataGetSolution(handle, y, w, c, x, most, count, solutions);
    default: return miopenConvolutionBackwardWeightsGetSolution(handle, y, x, c, w, most, count, solutions);
    }
}

static miopenStatus_t workspace_size(struct problem *p, enum direction direction, uint64_t id, size_t *bytes) {
    miopenTensorDescriptor_t x = p->x.descriptor, w = p->w.descriptor, y = p->y.descriptor;
    miopenConvolutionDescriptor_t c = p->convolution;
    switch (direction) {
    case FORWARD: return miopenConvolutionForwardGetSolutionWorkspaceSize(handle, w, x, c, y, id, bytes);
    case BACKWARD_DATA: return miopenConvolutionBackwardDataGetSolutionWorkspaceSize(handle, y, w, c, x, id, bytes);
    default: return miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize(handle, y, x, c, w, id, bytes);
    }
}

static miopenStatus_t compile(struct problem *p, enum direction direction, uint64_t id) {
    miopenTensorDescriptor_t x = p->x.descriptor, w = p->w.descriptor, y = p->y.descriptor;
    switch (direction) {
    case FORWARD: return miopenConvolutionForwardCompileSolution(handle, w, x, p->convolution, y, id);
    case BACKWARD_DATA: return miopenConvolutionBackwardDataCompileSolution(handle, y, w, p->convolution, x, id);
    default: return miopenConvolutionBackwardWeightsCompileSolution(handle, y, x, p->convolution, w, id);
    }
}

static miopenStatus_t run(struct problem *p, enum direction direction, uint64_t id, void *workspace, size_t bytes) {
    struct tensor *x = &p->x, *w = &p->w, *y = &p->y;
    miopenConvolutionDescriptor_t c = p->convolution;
    switch (direction) {
    case FORWARD:
        return miopenConvolutionForwardImmediate(handle, w->descriptor, w->data, x->descriptor, x->data, c, y->descriptor, y->data,
                                                 workspace, bytes, id);
    case BACKWARD_DATA:
        return miopenConvolutionBackwardDataImmediate(handle, y->descriptor, y->data, w->descriptor, w->data, c, x->descriptor, x->data,
                                                      workspace, bytes, id);
    default:
        return miopenConvolutionBackwardWeightsImmediate(handle, y->descriptor, y->data, x->descriptor, x->data, c, w->descriptor,
                                                         w->data, workspace, bytes, id);
    }
}

/* One solution from its number to its result; twice, as a program that goes on. */
static void solve(struct problem *p, enum direction direction, uint64_t id) {
    size_t bytes = 0;
    SAY("workspace status %d", workspace_size(p, direction, id, &bytes));
    SAY("bytes %zu", bytes);
    if (!is("uncompiled")) SAY("compiled %d", compile(p, direction, id));
    void *workspace = bytes > 0 ? allocate(bytes) : NULL;
    for (int i = 0; i < 2; i++) {
        poison(p, direction);
        show(p, direction, run(p, direction, id, workspace, bytes));
    }
    free(workspace);
}

static void one(struct problem *p, enum direction direction, uint64_t stored) {
    miopenConvSolution_t solutions[ROOM + 1], untouched;
    size_t counted = 0, listed = ROOM + 1;
    prepare(p, direction);
    if (is("unknown")) {
        /* Native's own answer, which is no result. */
        size_t bytes = 0;
        SAY("workspace status %d", workspace_size(p, direction, stored, &bytes));
        SAY("compiled %d", compile(p, direction, stored));
        SAY("status %d", run(p, direction, stored, NULL, 0));
        return;
    }
    SAY("count status %d", count_solutions(p, direction, &counted));
    SAY("count %zu, within the room %d", counted, counted >= 1 && counted <= ROOM);
    size_t most = is("max1") ? 1 : is("many") ? ROOM : counted;
    if (most > ROOM) return;
    memset(solutions, 0xff, sizeof solutions);
    memset(&untouched, 0xff, sizeof untouched);
    SAY("list status %d", list_solutions(p, direction, most, &listed, solutions));
    SAY("listed %zu, as many as were counted and asked for %d", listed, listed == (most < counted ? most : counted));
    if (listed > most) return;
    SAY("nothing written behind the list %d", !memcmp(&solutions[listed], &untouched, sizeof untouched));
    for (size_t i = 0; i < listed; i++) {
        const miopenConvSolution_t *s = &solutions[i];
        SAY("solution %llu algorithm %d workspace %zu", (unsigned long long)s->solution_id, (int)s->algorithm, s->workspace_size);
        /* Frameworks keep it as a signed number, and 0 for none. */
        SAY("positive %d, timed %d", (int64_t)s->solution_id > 0, s->time >= 0);
        miopenConvAlgorithm_t algorithm = (miopenConvAlgorithm_t)-1;
        miopenStatus_t status = miopenGetSolverIdConvAlgorithm(s->solution_id, &algorithm);
        SAY("algorithm status %d, as listed %d", status, algorithm == s->algorithm);
    }
    struct problem moved = elsewhere(p, direction);
    if (is("stored")) {
        solve(&moved, direction, stored);
        return;
    }
    for (size_t i = 0; i < listed; i++) solve(&moved, direction, solutions[i].solution_id);
    if (is("other-handle") && listed > 0) {
        /* A number belongs to the library, not to the handle that listed it. */
        miopenHandle_t first = handle;
        CHECK(miopenCreateWithStream(&handle, NULL));
        solve(&moved, direction, solutions[0].solution_id);
        CHECK(miopenDestroy(handle));
        handle = first;
    }
}

int main(int argc, char **argv) {
    what = argc > 1 ? argv[1] : "all";
    uint64_t stored = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    wide_descriptors = 1;
    CHECK(miopenCreateWithStream(&handle, NULL));
    if (is("timed")) CHECK(miopenEnableProfiling(handle, true));
    for (int i = 0; i < PROBLEMS; i++) {
        make_problem(&problems[i]);
        if (is("deterministic")) {
            CHECK(miopenSetConvolutionAttribute(problems[i].convolution, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1));
        }
        for (int d = 0; d < DIRECTIONS; d++) one(&problems[i], (enum direction)d, stored);
        destroy_problem(&problems[i]);
    }
    CHECK(miopenDestroy(handle));
    return 0;
}
