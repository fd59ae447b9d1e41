/* tiny_session.h - tiny models loaded, sessions run to the end of a generation, and what came of it. */
#ifndef TINY_SESSION_H
#define TINY_SESSION_H

#include "run/engine.h"
#include "support/gpu.h"
#include "support/tiny_model.h"
#include "ref/model_ref.h"

enum { RUN_MAX_IDS = 2048, RUN_TEXT_SIZE = 16384 };

/* Smaller yet: three layers 64 wide. No K formats. */
tiny_model tiny_small(const char *arch);

/* Writes the model to a file of its own, loads it from there, and removes the file. CHECK_OKs. */
vklm_model *tiny_load(vklm_device *device, const tiny_model *m);
/* The status of the load instead; *model is NULL on failure. */
vklm_status tiny_try_load(vklm_device *device, const tiny_model *m, vklm_error *error, vklm_model **model);
model_ref *tiny_ref(const tiny_model *m);

/* params may be NULL; struct_size is filled in. */
vklm_session *tiny_session(vklm_model *model, const vklm_session_params *params);

vklm_session_stats stats_of(const vklm_session *session);

/* What one generation brought. */
typedef struct run_result {
    vklm_token drawn[RUN_MAX_IDS]; /* by TOKEN events */
    size_t n_drawn;
    char text[RUN_TEXT_SIZE];      /* of TOKEN events and of DONE */
    size_t text_len;
    uint32_t n_progress, n_logits, n_drops, n_messages_dropped;
    size_t drawn_before_drop;      /* tokens before the last DROPPED event */
    uint32_t first_logits;         /* position of the first LOGITS event */
    float *logits;                 /* [n_logits][n_vocab], from the heap; NULL: none */
    vklm_event done;               /* its text is gone */
    char failure[VKLM_ERROR_TEXT_SIZE]; /* with reason ERROR */
} run_result;

/* Adds an event, and checks that it fits those before: positions that follow each other, whole UTF-8
 * characters, nothing behind DONE. */
void run_take(run_result *r, const vklm_session *session, const vklm_event *event);
void run_free(run_result *r);

/* generate, then wait_event until DONE. params: struct_size is filled in. */
void run_generate(vklm_session *session, vklm_generate_params params, run_result *r);
/* Greedy, n tokens. */
void run_greedy(vklm_session *session, uint32_t n, run_result *r);

/* n ids below n_vocab; the same for a seed. */
void some_ids(uint32_t seed, uint32_t n_vocab, vklm_token *ids, size_t n);

/* Sum of squared differences by sum of squares of the reference. */
double nmse(const float *got, const double *reference, size_t n);

#endif
