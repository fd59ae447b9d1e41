/* profile.h - plans run with a timestamp for each dispatch, for vklm_session_profile and vklm_session_tune. */
#ifndef VKI_PROFILE_H
#define VKI_PROFILE_H

#include "run/engine.h"
#include "vklm/vklm_profile.h"

typedef struct vki_time {
    uint64_t begin_ns, end_ns; /* since the profiler's first dispatch */
} vki_time;

typedef struct vki_profiler {
    vklm_model *model;         /* borrowed */
    vki_recording recording;   /* owned; its barriers are the plan's */
    vki_time *times;           /* owned: of the plan last run, by dispatch */
    size_t times_capacity;
    uint64_t *ticks;           /* owned scratch */
    size_t ticks_capacity;
    uint64_t first_tick;
    bool has_run;
} vki_profiler;

/* DEVICE_UNSUITABLE without timestamps; INVALID_ARGUMENT where a session of the model generates. Waits for what
 * is in flight. */
vklm_status vki_profiler_init(vki_profiler *profiler, vklm_model *model, vklm_error *error);
/* Safe on a zeroed profiler. */
void vki_profiler_free(vki_profiler *profiler);
/* Runs model->plan to its end, cut into about `n_units` submits at most. */
vklm_status vki_profiler_run(vki_profiler *profiler, uint32_t n_units, vklm_error *error);

/* Some tokens, as passes: one decode step, or the chunks of a prompt. */
typedef struct vki_tokens {
    vklm_model *model;
    bool kv_f32, on_device;
    uint32_t depth, n, chunk; /* tokens in the cache, new ones, most of them in a chunk */
} vki_tokens;

/* Plans the first pass into model->plan; *rows_out of the tokens are in it. */
vklm_status vki_tokens_plan(const vki_tokens *tokens, vklm_error *error, uint32_t *rows_out);

/* What is pending in an idle session; INVALID_ARGUMENT where that is nothing. */
vklm_status vki_tokens_pending(vklm_session *session, vklm_error *error, vki_tokens *tokens);
/* Places the rows of the first pass in the cache. */
vklm_status vki_tokens_place(const vki_tokens *tokens, vklm_session *session, uint32_t rows, vklm_error *error);

#endif
