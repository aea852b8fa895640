/* Convolutions in the find-2.0 style, the way MIGraphX calls them: a problem, its solution found on preallocated memory, saved as a blob;
 * then, there or in another process, loaded and run. All directions.
 *
 * usage: find2 WORD,... [FOLDER]   of plain many timed gone unprepared misaligned shared reordered described missing
 *                                  undescribed; writes each blob into the folder, if there is one
 *        find2 load,... FOLDER     loads them from there, and runs them
 * Prints one line for each thing that a test may want to compare. */
#include "problem.h"

/* MIGraphX wants one solution. */
enum { MANY = 4 };

static const char *folder;

static FILE *blob_file(struct problem *p, enum direction direction, const char *mode) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%s.blob", folder, p->name, direction_names[direction]);
    FILE *file = fopen(path, mode);
    if (!file) perror(path), exit(1);
    return file;
}

static miopenStatus_t workspace_size(struct problem *p, enum direction direction, size_t *bytes) {
    miopenTensorDescriptor_t x = p->x.descriptor, w = p->w.descriptor, y = p->y.descriptor;
    switch (direction) {
    case FORWARD: return miopenConvolutionForwardGetWorkSpaceSize(handle, w, x, p->convolution, y, bytes);
    case BACKWARD_DATA: return miopenConvolutionBackwardDataGetWorkSpaceSize(handle, y, w, p->convolution, x, bytes);
    default: return miopenConvolutionBackwardWeightsGetWorkSpaceSize(handle, y, x, p->convolution, w, bytes);
    }
}

static miopenProblem_t describe_problem(struct problem *p, enum direction direction) {
    static const miopenProblemDirection_t directions[] = {miopenProblemDirectionForward, miopenProblemDirectionBackward,
                                                          miopenProblemDirectionBackwardWeights};
    miopenProblem_t problem;
    CHECK(miopenCreateConvProblem(&problem, p->convolution, directions[direction]));
    CHECK(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionX, p->x.descriptor));
    CHECK(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionW, p->w.descriptor));
    CHECK(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionY, p->y.descriptor));
    return problem;
}

/* A problem has copies of its descriptors: what happens to the originals must not show. */
static void spoil(struct problem *p) {
    int two[2] = {2, 2}, dims[4] = {1, 1, 1, 1};
    describe(p->x.descriptor, miopenHalf, dims, dims);
    describe(p->w.descriptor, miopenHalf, dims, dims);
    describe(p->y.descriptor, miopenHalf, dims, dims);
    CHECK(miopenInitConvolutionNdDescriptor(p->convolution, 2, two, two, two, miopenTranspose));
}

static miopenSolution_t find(struct problem *p, enum direction direction) {
    size_t bytes = 0, found = 0, room = is("many") ? MANY : 1;
    miopenSolution_t solutions[MANY + 1] = {NULL};
    miopenFindOptions_t options = NULL;
    CHECK(workspace_size(p, direction, &bytes));
    void *workspace = bytes > 0 ? allocate(bytes) : NULL;
    miopenProblem_t problem = describe_problem(p, direction);
    if (is("gone")) spoil(p);
    if (!is("unprepared")) {
        CHECK(miopenCreateFindOptions(&options));
        CHECK(miopenSetFindOptionTuning(options, 1));
        CHECK(miopenSetFindOptionPreallocatedTensor(options, miopenTensorConvolutionX, p->x.data));
        CHECK(miopenSetFindOptionPreallocatedTensor(options, miopenTensorConvolutionW, p->w.data));
        CHECK(miopenSetFindOptionPreallocatedTensor(options, miopenTensorConvolutionY, p->y.data));
        CHECK(miopenSetFindOptionPreallocatedWorkspace(options, workspace, bytes));
    }
    SAY("find %d", miopenFindSolutions(handle, problem, options, solutions, &found, room));
    SAY("found %zu, within the room %d, no more written %d", found, found <= room, found <= room && !solutions[found]);
    wait_for_device();
    if (options) CHECK(miopenDestroyFindOptions(options));
    CHECK(miopenDestroyProblem(problem));
    free(workspace);
    for (size_t i = 1; i < found && i < room; i++) CHECK(miopenDestroySolution(solutions[i]));
    return solutions[0];
}

static void ask(miopenSolution_t solution) {
    size_t bytes = 0;
    float time = -1;
    uint64_t solver = 0;
    miopenConvAlgorithm_t algorithm;
    SAY("workspace status %d", miopenGetSolutionWorkspaceSize(solution, &bytes));
    SAY("time status %d", miopenGetSolutionTime(solution, &time));
    SAY("timed %d", time >= 0);
    SAY("solver status %d", miopenGetSolutionSolverId(solution, &solver));
    SAY("algorithm status %d", miopenGetSolverIdConvAlgorithm(solver, &algorithm));
    SAY("solver %llu", (unsigned long long)solver);
}

static void run(struct problem *p, enum direction direction, miopenSolution_t solution) {
    struct problem moved = elsewhere(p, direction);
    struct tensor *x = &moved.x, *w = &moved.w, *y = &moved.y;
    miopenTensorDescriptor_t none = NULL;
    int given = is("described"), first = is("reordered") ? 2 : 0, last = 2 - first;
    miopenTensorArgument_t tensors[3];
    tensors[first] = (miopenTensorArgument_t){miopenTensorConvolutionX, given ? &x->descriptor : NULL, x->data};
    tensors[1] = (miopenTensorArgument_t){miopenTensorConvolutionW, given ? &w->descriptor : NULL, w->data};
    tensors[last] = (miopenTensorArgument_t){miopenTensorConvolutionY, given ? &y->descriptor : NULL, y->data};
    /* A place for a descriptor, with none in it. */
    if (is("undescribed")) tensors[first].descriptor = &none;
    size_t bytes = 0;
    CHECK(miopenGetSolutionWorkspaceSize(solution, &bytes));
    void *workspace = bytes > 0 ? allocate(bytes) : NULL;
    for (int i = 0; i < 2; i++) {
        poison(&moved, direction);
        miopenStatus_t status = miopenRunSolution(handle, solution, is("missing") ? 2 : 3, tensors, workspace, bytes);
        if (is("undescribed")) show_refusal(&moved, direction, status);
        else show(&moved, direction, status);
    }
    free(workspace);
}

static char *save(miopenSolution_t solution, size_t *size) {
    *size = 0;
    CHECK(miopenGetSolutionSize(solution, size));
    char *blob = allocate(*size);
    SAY("save %d", miopenSaveSolution(solution, blob));
    SAY("nothing written behind the blob %d", blob[*size] == (char)0xff);
    return blob;
}

static void load_and_run(struct problem *p, enum direction direction, const char *blob, size_t size) {
    miopenSolution_t solution = NULL;
    SAY("load %d", miopenLoadSolution(&solution, blob, size));
    run(p, direction, solution);
    CHECK(miopenDestroySolution(solution));
}

/* In the process that finds. MIGraphX keeps the blob alone, and destroys the solution. */
static void find_and_run(struct problem *p, enum direction direction) {
    miopenSolution_t solution = find(p, direction);
    if (!solution) return;
    size_t size;
    ask(solution);
    char *blob = save(solution, &size);
    run(p, direction, solution);
    CHECK(miopenDestroySolution(solution));
    if (folder) {
        FILE *file = blob_file(p, direction, "wb");
        fwrite(blob, 1, size, file);
        fclose(file);
    }
    load_and_run(p, direction, blob, size);
    free(blob);
}

/* In another process. */
static void load_from_file(struct problem *p, enum direction direction) {
    char *blob = allocate(1 << 20);
    FILE *file = blob_file(p, direction, "rb");
    size_t size = fread(blob, 1, 1 << 20, file);
    fclose(file);
    load_and_run(p, direction, blob, size);
    free(blob);
}

int main(int argc, char **argv) {
    what = argc > 1 ? argv[1] : "plain";
    folder = argc > 2 ? argv[2] : NULL;
    CHECK(miopenCreate(&handle));
    if (is("timed")) CHECK(miopenEnableProfiling(handle, true));
    for (int i = 0; i < PROBLEMS; i++) for (int d = 0; d < DIRECTIONS; d++) {
        struct problem *p = &problems[i];
        make_problem(p);
        prepare(p, (enum direction)d);
        if (is("load")) load_from_file(p, (enum direction)d);
        else find_and_run(p, (enum direction)d);
        destroy_problem(p);
    }
    CHECK(miopenDestroy(handle));
    return 0;
}
