/* A convolution with what follows it, in one call. As a fusion plan in the order of PyTorch (with `v2` that of XLA): the plan, its
 * operations, compilation, and then executions with arguments of their own. Or without a plan, in the fused call.
 *
 * usage: fusion plan CHAIN [WORD,...]   of v2 gone indexed incomplete timed mistyped replanned; CHAIN is what follows the convolution, such as bias+relu,
 *                                       bias+leaky or norm+relu
 *        fusion call [WORD,...]         of half timed
 * Prints one line for each thing that a test may want to compare. */
#include "problem.h"

enum { MOST = 4, SETS = 2, REPLANNED = 2000, Y = N * K * H * H };

/* The numbers of one set of arguments: per channel, but for the filter. */
struct numbers {
    float *w, bias[K], scale[K], shift[K], mean[K], variance[K];
};

enum kind { BIAS, NORM, ACTIVATION };

/* An operation behind the convolution. */
static struct operation {
    const char *name;
    enum kind kind;
    miopenActivationMode_t mode;
    double alpha, beta, gamma;
    miopenFusionOpDescriptor_t descriptor;
} known[] = {
    {.name = "bias", .kind = BIAS},
    {.name = "norm", .kind = NORM},
    {.name = "relu", .kind = ACTIVATION, .mode = miopenActivationRELU},
    {.name = "leaky", .kind = ACTIVATION, .mode = miopenActivationLEAKYRELU, .alpha = 0.125},
    {.name = "clipped", .kind = ACTIVATION, .mode = miopenActivationCLIPPEDRELU, .alpha = 6},
    {.name = "elu", .kind = ACTIVATION, .mode = miopenActivationELU, .alpha = 0.5},
    {.name = "tanh", .kind = ACTIVATION, .mode = miopenActivationTANH, .alpha = 0.0625, .beta = 1},
    {.name = "tanh2", .kind = ACTIVATION, .mode = miopenActivationTANH, .alpha = 0.0625, .beta = 2},
    {.name = "logistic", .kind = ACTIVATION, .mode = miopenActivationLOGISTIC},
    {.name = "abs", .kind = ACTIVATION, .mode = miopenActivationABS},
    {.name = "softrelu", .kind = ACTIVATION, .mode = miopenActivationSOFTRELU},
    {.name = "passthru", .kind = ACTIVATION, .mode = miopenActivationPASTHRU},
    {.name = "power", .kind = ACTIVATION, .mode = miopenActivationPOWER, .alpha = 1, .beta = 2, .gamma = 2},
};

static struct operation chain[MOST];
static int links;
static const double epsilon = 1e-5;

static void parse(char *text) {
    for (char *name = strtok(text, "+"); name; name = strtok(NULL, "+")) {
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strcmp(known[i].name, name)) i++;
        if (i == sizeof known / sizeof *known || links == MOST) exit(1);
        chain[links++] = known[i];
    }
}

static double activation(const struct operation *o, double v) {
    switch (o->mode) {
    case miopenActivationRELU: return v > 0 ? v : 0;
    case miopenActivationLEAKYRELU: return v > 0 ? v : o->alpha * v;
    case miopenActivationCLIPPEDRELU: return v > o->alpha ? o->alpha : v > 0 ? v : 0;
    case miopenActivationELU: return v > 0 ? v : o->alpha * expm1(v);
    case miopenActivationTANH: return o->beta * tanh(o->alpha * v);
    case miopenActivationLOGISTIC: return 1 / (1 + exp(-v));
    case miopenActivationABS: return fabs(v);
    case miopenActivationSOFTRELU: return (v > 0 ? v : 0) + log1p(exp(-fabs(v)));
    case miopenActivationPOWER: return pow(o->alpha + o->beta * v, o->gamma);
    default: return v;
    }
}

static double follow(const struct operation *o, const struct numbers *a, int k, double v) {
    switch (o->kind) {
    case BIAS: return v + a->bias[k];
    case NORM: return a->scale[k] * (v - a->mean[k]) / sqrt(a->variance[k] + epsilon) + a->shift[k];
    default: return activation(o, v);
    }
}

static int close_to(double value, double expected) {
    return fabs(value - expected) <= 1e-5 * (1 + fabs(expected));
}

/* Whether y is the chain's result by definition. */
static int chain_is_right(struct problem *p, const struct numbers *a) {
    struct problem with = *p;
    double sums[Y] = {0};
    with.w.data = a->w;
    define(&with, FORWARD, sums);
    for (int n = 0; n < N; n++) for (int k = 0; k < K; k++) for (int i = 0; i < H; i++) for (int j = 0; j < H; j++) {
        size_t index = at(&p->y, n, k, i, j);
        double v = sums[index];
        for (int l = 0; l < links; l++) v = follow(&chain[l], a, k, v);
        if (!close_to(p->y.data[index], v)) return 0;
    }
    return 1;
}

static void show_chain(struct problem *p, const struct numbers *a, miopenStatus_t status) {
    show_status(status);
    say_values(p->y.data, p->y.count);
    SAY("right %d", chain_is_right(p, a));
}

static void fill_numbers(struct numbers *a, const struct problem *p, unsigned set) {
    a->w = allocate(p->w.count * sizeof(float));
    fill(a->w, p->w.count, 3 + set);
    for (int k = 0; k < K; k++) {
        a->bias[k] = (float)(k - 2) + (float)set;
        a->scale[k] = 0.5f * (float)(k + 1), a->shift[k] = (float)(1 - k);
        a->mean[k] = (float)(k + (int)set), a->variance[k] = 1 + (float)k;
    }
}

static void add_operations(miopenFusionPlanDescriptor_t plan, miopenTensorDescriptor_t per_channel) {
    for (int l = 0; l < links; l++) {
        struct operation *o = &chain[l];
        if (o->kind == BIAS) CHECK(miopenCreateOpBiasForward(plan, &o->descriptor, per_channel));
        else if (o->kind == NORM) CHECK(miopenCreateOpBatchNormInference(plan, &o->descriptor, miopenBNSpatial, per_channel));
        else CHECK(miopenCreateOpActivationForward(plan, &o->descriptor, o->mode));
    }
}

/* The plan knows its operations too, and MIGraphX asks it for them. */
static void get_operations(miopenFusionPlanDescriptor_t plan, miopenFusionOpDescriptor_t *convolution) {
    CHECK(miopenFusionPlanGetOp(plan, 0, convolution));
    for (int l = 0; l < links; l++) CHECK(miopenFusionPlanGetOp(plan, l + 1, &chain[l].descriptor));
}

/* The scalars are the operations', and are only looked at while they are set. */
static void set_arguments(miopenOperatorArgs_t args, miopenFusionOpDescriptor_t convolution, const struct numbers *a) {
    float one = 1, zero = 0;
    CHECK(miopenSetOpArgsConvForward(args, convolution, &one, &zero, a->w));
    for (int l = 0; l < links - is("incomplete"); l++) {
        struct operation *o = &chain[l];
        if (o->kind == BIAS) CHECK(miopenSetOpArgsBiasForward(args, o->descriptor, &one, &zero, a->bias));
        else if (o->kind == NORM) {
            CHECK(miopenSetOpArgsBatchNormInference(args, o->descriptor, &one, &zero, a->scale, a->shift, a->mean, a->variance, epsilon));
        } else CHECK(miopenSetOpArgsActivForward(args, o->descriptor, &one, &zero, o->alpha, o->beta, o->gamma));
    }
}

static miopenStatus_t execute(struct problem *p, miopenFusionPlanDescriptor_t plan, miopenOperatorArgs_t args) {
    size_t bytes = 0;
    poison(p, FORWARD);
    if (!is("v2")) return miopenExecuteFusionPlan(handle, plan, p->x.descriptor, p->x.data, p->y.descriptor, p->y.data, args);
    CHECK(miopenFusionPlanGetWorkSpaceSize(handle, plan, &bytes, miopenConvolutionFwdAlgoImplicitGEMM));
    void *workspace = bytes > 0 ? allocate(bytes) : NULL;
    miopenStatus_t status =
        miopenExecuteFusionPlan_v2(handle, plan, p->x.descriptor, p->x.data, p->y.descriptor, p->y.data, args, workspace, bytes);
    wait_for_device();
    free(workspace);
    return status;
}

/* With an output of a type that was not planned. */
static void execute_mistyped(struct problem *p, miopenFusionPlanDescriptor_t plan, miopenOperatorArgs_t args) {
    miopenTensorDescriptor_t planned = p->y.descriptor;
    CHECK(miopenCreateTensorDescriptor(&p->y.descriptor));
    describe(p->y.descriptor, miopenHalf, p->y.dims, p->y.strides);
    show_refusal(p, FORWARD, execute(p, plan, args));
    CHECK(miopenDestroyTensorDescriptor(p->y.descriptor));
    p->y.descriptor = planned;
}

/* One object for arguments may have served many plans, whose operations have been where later ones are. */
static void replan(struct problem *p, miopenTensorDescriptor_t per_channel, miopenOperatorArgs_t args, const struct numbers *a) {
    for (int i = 0; i < REPLANNED; i++) {
        miopenFusionPlanDescriptor_t plan;
        miopenFusionOpDescriptor_t convolution;
        CHECK(miopenCreateFusionPlan(&plan, miopenVerticalFusion, p->x.descriptor));
        CHECK(miopenCreateOpConvForward(plan, &convolution, p->convolution, p->w.descriptor));
        add_operations(plan, per_channel);
        set_arguments(args, convolution, a);
        CHECK(miopenDestroyFusionPlan(plan));
    }
}

/* A plan's operations have copies of their descriptors: what happens to the originals must not show. */
static void spoil(struct problem *p, miopenTensorDescriptor_t per_channel) {
    int two[2] = {2, 2}, dims[4] = {1, 1, 1, 1};
    describe(p->w.descriptor, miopenHalf, dims, dims);
    CHECK(miopenInitConvolutionNdDescriptor(p->convolution, 2, two, two, two, miopenTranspose));
    CHECK(miopenDestroyTensorDescriptor(per_channel));
}

static void planned(struct problem *p) {
    int dims[4] = {1, K, 1, 1}, strides[4] = {K, 1, 1, 1};
    miopenTensorDescriptor_t per_channel;
    miopenFusionPlanDescriptor_t plan;
    miopenFusionOpDescriptor_t convolution;
    miopenOperatorArgs_t args[SETS];
    struct numbers numbers[SETS];
    prepare(p, FORWARD);
    CHECK(miopenCreateTensorDescriptor(&per_channel));
    describe(per_channel, miopenFloat, dims, strides);
    for (unsigned set = 0; set < SETS; set++) {
        fill_numbers(&numbers[set], p, set);
        CHECK(miopenCreateOperatorArgs(&args[set]));
    }
    if (is("replanned")) replan(p, per_channel, args[0], &numbers[1]);
    CHECK(miopenCreateFusionPlan(&plan, miopenVerticalFusion, p->x.descriptor));
    CHECK(miopenCreateOpConvForward(plan, &convolution, p->convolution, p->w.descriptor));
    add_operations(plan, per_channel);
    if (is("gone")) spoil(p, per_channel);
    if (is("indexed")) get_operations(plan, &convolution);
    SAY("compile %d", miopenCompileFusionPlan(handle, plan));
    for (unsigned set = 0; set < SETS; set++) set_arguments(args[set], convolution, &numbers[set]);
    if (is("mistyped")) execute_mistyped(p, plan, args[0]);
    /* Each with its own, then the first again; then with the other's numbers. */
    for (int i = 0; i < 3; i++) show_chain(p, &numbers[i % SETS], execute(p, plan, args[i % SETS]));
    set_arguments(args[0], convolution, &numbers[1]);
    show_chain(p, &numbers[1], execute(p, plan, args[0]));
    for (int set = 0; set < SETS; set++) {
        CHECK(miopenDestroyOperatorArgs(args[set]));
        free(numbers[set].w);
    }
    CHECK(miopenDestroyFusionPlan(plan));
    if (!is("gone")) CHECK(miopenDestroyTensorDescriptor(per_channel));
}

/* Integers below 2048 as half-precision numbers, and back. */
static uint16_t half_of(float value) {
    int exponent;
    float fraction = frexpf(fabsf(value), &exponent);
    uint16_t sign = value < 0 ? 0x8000 : 0;
    if (value == 0) return sign;
    return (uint16_t)(sign | (uint16_t)((exponent + 14) << 10) | ((uint16_t)(fraction * 2048) & 0x3ff));
}

static float value_of(uint16_t half) {
    int exponent = half >> 10 & 31;
    if (exponent == 31) return NAN;
    float magnitude = exponent ? ldexpf((float)(1024 + (half & 0x3ff)), exponent - 25) : ldexpf((float)(half & 0x3ff), -24);
    return half & 0x8000 ? -magnitude : magnitude;
}

/* The tensors of the fused call in its data type. */
static miopenDataType_t type = miopenFloat;

static void *converted(const float *values, size_t count) {
    uint16_t *halves = allocate(count * sizeof(float));
    if (type == miopenFloat) return memcpy(halves, values, count * sizeof(float));
    for (size_t i = 0; i < count; i++) halves[i] = half_of(values[i]);
    return halves;
}

struct fused {
    const float *alpha1, *alpha2;
    int with_z;
};

static int fused_is_right(struct problem *p, struct fused f, const float *bias, const float *z, const float *y) {
    double sums[Y] = {0}, alpha1 = f.alpha1 ? *f.alpha1 : 1, alpha2 = f.alpha2 ? *f.alpha2 : 1;
    define(p, FORWARD, sums);
    for (int n = 0; n < N; n++) for (int k = 0; k < K; k++) for (int i = 0; i < H; i++) for (int j = 0; j < H; j++) {
        size_t index = at(&p->y, n, k, i, j);
        double v = alpha1 * sums[index] + (alpha2 != 0 ? alpha2 * z[index] : 0) + bias[k];
        if (!close_to(y[index], v > 0 ? v : 0)) return 0;
    }
    return 1;
}

/* One fused call, on copies of the tensors. Where z does not count, it is missing or full of NaN. */
static void fused_call(struct problem *p, struct fused f, miopenTensorDescriptor_t bias_descriptor, miopenActivationDescriptor_t relu) {
    float bias[K] = {-2, -1, 0, 1}, z[Y], y[Y];
    fill(z, Y, 7);
    int counts = !f.alpha2 || *f.alpha2 != 0;
    void *memory[5] = {converted(p->x.data, p->x.count), converted(p->w.data, p->w.count), converted(bias, K),
                       counts ? converted(z, Y) : f.with_z ? allocate(Y * sizeof *z) : NULL, allocate(Y * sizeof *y)};
    miopenStatus_t status = miopenConvolutionBiasActivationForward(
        handle, f.alpha1, p->x.descriptor, memory[0], p->w.descriptor, memory[1], p->convolution, miopenConvolutionFwdAlgoDirect, NULL, 0,
        f.alpha2, memory[3] ? p->y.descriptor : NULL, memory[3], bias_descriptor, memory[2], relu, p->y.descriptor, memory[4]);
    show_status(status);
    for (size_t i = 0; i < Y; i++) y[i] = type == miopenFloat ? ((float *)memory[4])[i] : value_of(((uint16_t *)memory[4])[i]);
    say_values(y, Y);
    SAY("right %d", fused_is_right(p, f, bias, z, y));
    for (int i = 0; i < 5; i++) free(memory[i]);
}

static void fused_calls(struct problem *p) {
    static const float numbers[] = {0, 1, 2};
    int dims[4] = {1, K, 1, 1}, strides[4] = {K, 1, 1, 1};
    struct fused calls[] = {{NULL, NULL, 1},         {NULL, &numbers[0], 0},         {NULL, &numbers[0], 1},
                            {NULL, &numbers[1], 1},  {&numbers[1], NULL, 1},         {&numbers[1], &numbers[0], 0},
                            {&numbers[1], &numbers[0], 1}, {&numbers[1], &numbers[1], 1}, {&numbers[2], NULL, 1},
                            {&numbers[2], &numbers[0], 0}, {&numbers[2], &numbers[0], 1}, {&numbers[2], &numbers[1], 1},
                            {&numbers[1], &numbers[2], 1}};
    miopenTensorDescriptor_t bias;
    miopenActivationDescriptor_t relu;
    prepare(p, FORWARD);
    CHECK(miopenCreateTensorDescriptor(&bias));
    describe(bias, type, dims, strides);
    describe(p->x.descriptor, type, p->x.dims, p->x.strides);
    describe(p->w.descriptor, type, p->w.dims, p->w.strides);
    describe(p->y.descriptor, type, p->y.dims, p->y.strides);
    CHECK(miopenCreateActivationDescriptor(&relu));
    CHECK(miopenSetActivationDescriptor(relu, miopenActivationRELU, 1, 0, 0));
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct fused f = calls[i];
        snprintf(place, sizeof place, "%s %g,%g,%s", p->name, f.alpha1 ? *f.alpha1 : -1, f.alpha2 ? *f.alpha2 : -1, f.with_z ? "z" : "none");
        fused_call(p, f, bias, relu);
    }
    CHECK(miopenDestroyActivationDescriptor(relu));
    CHECK(miopenDestroyTensorDescriptor(bias));
}

int main(int argc, char **argv) {
    if (argc < 2) return 1;
    int plan = !strcmp(argv[1], "plan") && argc > 2;
    what = argc > 2 + plan ? argv[2 + plan] : "";
    if (plan) parse(argv[2]);
    if (is("half")) type = miopenHalf;
    CHECK(miopenCreate(&handle));
    if (is("timed")) CHECK(miopenEnableProfiling(handle, true));
    for (int i = 0; i < PROBLEMS; i++) {
        make_problem(&problems[i]);
        if (plan) planned(&problems[i]);
        else fused_calls(&problems[i]);
        destroy_problem(&problems[i]);
    }
    CHECK(miopenDestroy(handle));
    return 0;
}
