/* vklm_profile.h - what a model runs on the GPU, dispatch by dispatch: the plan of a prompt or a decode step, and
 * its GPU time. For developers of vklm, and of programs that want to see where their GPU time goes.
 *
 *     static void show(void *user, const vklm_dispatch *d)
 *     {
 *         printf("%s: %llu ns\n", d->name, (unsigned long long)(d->end_ns - d->begin_ns));
 *     }
 *     ...
 *     vklm_session_set_ids(session, ids, n_ids, &error, NULL);
 *     vklm_session_profile(session, &(vklm_profile_params){.struct_size = sizeof(vklm_profile_params),
 *                                                          .visit = show}, &error);
 *
 * The rules of vklm.h hold. Names of operations and shaders, and which dispatches a pass is made of, change with
 * versions, devices and models.
 */
#ifndef VKLM_PROFILE_H
#define VKLM_PROFILE_H

#include "vklm/vklm.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VKLM_NO_LAYER UINT32_MAX

/* One dispatch. Its strings and constants are valid during the visit only. */
typedef struct vklm_dispatch {
    uint32_t index;            /* from 0, in the order of execution */
    uint32_t pass;             /* the chunk of the prompt, from 0; its last one ends with the head */
    uint32_t layer;            /* VKLM_NO_LAYER: before and behind the layers */
    const char *name;          /* what is computed: "ffn_up" */
    const char *shader;        /* by which module: "matmul8_q4_0" */
    const uint32_t *constants; /* [n_constants]: its specialisation constants by id */
    uint32_t n_constants;
    uint32_t local_size;       /* invocations of a workgroup */
    uint32_t subgroup_size;    /* that the pipeline asks for; 0: left to the driver */
    uint32_t grid[3];          /* workgroups */
    uint64_t bytes, flops;     /* memory traffic and arithmetic by the kernel's own account */
    bool barrier;              /* a barrier stands before it */
    uint64_t begin_ns, end_ns; /* GPU time, from the begin of the first dispatch on; 0 in a plan */
} vklm_dispatch;

/* Must not call anything on the device's objects. */
typedef void (*vklm_dispatch_visit)(void *user, const vklm_dispatch *dispatch);

typedef struct vklm_plan_params {
    size_t struct_size;
    uint32_t n_tokens; /* default 1: a decode step; more: a prompt and the draw of its first token */
    uint32_t depth;    /* tokens in the cache before them */
    vklm_kv_type kv;
    vklm_dispatch_visit visit;
    void *user;
} vklm_plan_params;

/* Visits the dispatches that n_tokens would take; nothing runs. May compile pipelines. INVALID_ARGUMENT: no visit,
 * more tokens than the model's context, or a generation under way. */
VKLM_API vklm_status vklm_model_plan(vklm_model *model, const vklm_plan_params *params, vklm_error *error);

typedef struct vklm_profile_params {
    size_t struct_size;
    vklm_dispatch_visit visit; /* called when a pass has finished */
    void *user;
} vklm_profile_params;

/* Digests what is pending in the session as a generation would, a single id by a decode step, and draws a token that
 * is dropped; visits each dispatch with its time. The ids are in the cache then, as after prompt_only. Dispatches run
 * one by one, so that each has a time of its own: what the device gains by overlapping them is missing. Blocks.
 * DEVICE_UNSUITABLE where the device has no timestamps. INVALID_ARGUMENT: no visit, nothing pending, or a generation
 * of the model under way. */
VKLM_API vklm_status vklm_session_profile(vklm_session *session, const vklm_profile_params *params,
                                          vklm_error *error);

/* One value of one field of the tuning table (src/kernel/tune.c), as one operation ran under it. */
typedef struct vklm_tune_result {
    const char *field;   /* "matmul8" */
    const char *value;   /* as the table has it: "{32, 2, 1, 8}" */
    const char *name;    /* the operation; NULL: all together that the field shapes, in the whole model */
    bool current;        /* what the device runs without any tuning */
    uint32_t n_samples;
    uint64_t ns;         /* GPU time, the median: of one layer, or of the model; UINT64_MAX where it failed */
    uint64_t current_ns; /* the same of the current value */
    double nmse;         /* squared error of the logits over their squares, against those of the current value:
                            what only rounds differently is below VKLM_TUNE_NMSE */
    const char *failure; /* why it was not run; else empty */
} vklm_tune_result;

#define VKLM_TUNE_NMSE 0.01

typedef struct vklm_tune_params {
    size_t struct_size;
    double seconds; /* about how long; default 60. What no time is left for is left out or says so */
    uint32_t rounds;   /* most runs of a value, up to 15 (default) */
    const char *field; /* this one alone; default: all */
    void (*visit)(void *user, const vklm_tune_result *result);
    void *user;
} vklm_tune_params;

/* Times what is pending in the session, at most one chunk of it, under other values of the tuning table: for each
 * field that has several here, its operations one after the other and then their sum, the values of each from the
 * best to the worst. A few layers run. The session and the model are as before, but for pipelines that the model
 * keeps. Blocks, and compiles. Errors as vklm_session_profile, and INVALID_ARGUMENT for a field that is none. */
VKLM_API vklm_status vklm_session_tune(vklm_session *session, const vklm_tune_params *params, vklm_error *error);

#ifdef __cplusplus
}
#endif
#endif
