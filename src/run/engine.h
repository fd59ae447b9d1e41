/* engine.h - the insides of vklm_model and vklm_session: what runs, for whom, and what is in flight.
 *
 * Two kinds of work share a model's queue: a prompt's chunk with the logits of its rows, one at a time, and decode
 * steps of a batch of up to VKI_MAX_BATCH sessions, a row each. vklm_model_step takes what has finished and submits
 * more of both, by turns, slices of bounded GPU time. Each kind has activations and row states of its own, so
 * that a slice of one may run between slices of the other. Nothing here blocks but vklm_model_wait, the blocking
 * form and the destroys, and they give the model's lock back meanwhile.
 *
 * load.c    vklm_model: load, pipelines, buffers       session.c  history, generations
 * prefill.c chunks and logit rows                      events.c   events, and the blocking form
 * decode.c  batches, recorded steps                    draw.c     who draws tokens; sampler.c  and how
 * step.c    what is submitted when                      worker.c   a thread that steps
 * cache.c   caches dropped for space, pages shared     conversation.c  messages, and what does not fit
 * save.c    sessions as bytes, and back               estimate.c  what a load and sessions take
 */
#ifndef VKI_ENGINE_H
#define VKI_ENGINE_H

#include <stdatomic.h>

#include "base/os.h"
#include "gpu/record.h"
#include "model/forward.h"
#include "model/kv.h"
#include "run/sampler.h"
#include "run/stop.h"
#include "text/utf8.h"
#include "text/vocab.h"

enum {
    VKI_MAX_CHUNK = 512,       /* rows of a prefill chunk */
    VKI_LOGIT_ROWS = 8,        /* rows of logits the host takes at once */
    VKI_AHEAD = 2,             /* submits in flight: one runs, one waits */
    VKI_MOST_AHEAD = 8,        /* with a budget, which may have room for more */
    VKI_CHUNK_UNITS = 64,      /* command buffers that a chunk is cut into, about; a step that exceeds a budget, too */
    VKI_TURN_STEPS = 4,        /* of a batch, while other sessions wait for theirs */
};

/* A decode step recorded once: the same dispatches serve every token of a batch until the form changes. */
typedef struct vki_decode_form {
    uint32_t rows;
    bool on_device;            /* the device draws; else logits go to the host */
    bool kv_f32;
    uint32_t splits;
    uint64_t cost;
    /* A command buffer in flight cannot be submitted again: copies, made as they are needed, and the value of the
     * submit that each was last in. */
    vki_recording copies[VKI_MOST_AHEAD];
    uint64_t values[VKI_MOST_AHEAD];
    vki_recording sliced;      /* the same in units, made where a step exceeds a budget */
} vki_decode_form;

typedef enum vki_job_kind { VKI_JOB_NONE, VKI_JOB_CHUNK, VKI_JOB_LOGITS } vki_job_kind;

/* The prompt under way. */
typedef struct vki_job {
    vki_job_kind kind;
    vklm_session *session;     /* borrowed; NULL once the session gave up on the results */
    uint32_t rows, n_out;      /* of the chunk; of its last rows those whose logits are wanted */
    uint32_t next_row;         /* of the rows wanted, the first whose logits are not yet made */
    uint32_t group;            /* rows of the logits group under way */
    bool recorded;             /* what is to be submitted next; a group of logits waits for events to be taken */
    size_t next_unit;          /* of the recording, not yet submitted */
    uint32_t in_flight;        /* submits */
} vki_job;

/* The sessions that decode together. Their row states are written where the batch is composed, and only the device
 * moves them on (where it draws), so a batch whose sessions change is composed anew, once nothing of it is in flight. */
typedef struct vki_batch {
    vklm_session *rows[VKI_MAX_BATCH]; /* borrowed; NULL once it gave up: the row runs on in what is in flight */
    uint32_t n_rows;           /* 0: no batch */
    bool on_device, kv_f32;    /* what the sessions have in common */
    bool broken;               /* a session left */
    uint32_t steps_submitted, steps_taken;
    size_t form, next_unit;    /* of a step that is submitted in slices: its form, the next unit; 0: there is none */
    uint32_t in_flight;        /* submits */
} vki_batch;

/* A submit under way, of the job or of the batch. */
typedef struct vki_flight {
    uint64_t value;
    double ns;                 /* that it takes, as expected */
    bool decode, ends;         /* of the batch; the last slice of a step */
} vki_flight;

/* What may be submitted now. */
typedef struct vki_room {
    double submit_ns;          /* a submit; a whole step may take more: */
    double step_ns;
    double left_ns;            /* all that is submitted from here on */
    bool must;                 /* nothing is in flight: at least one unit goes, however long it takes */
} vki_room;

struct vklm_model {
    vklm_device *device;       /* borrowed */
    vki_mutex lock;            /* held by every public call on the model or a session of it, not while it waits */
    vki_signal changed;        /* raised where a thread may wait for what another brought or took */
    vklm_worker *worker;       /* borrowed; NULL: who waits for events steps */
    uint64_t n_news;           /* counts events, to know whether a step brought any */
    vki_weights weights;
    vklm_vocab *vocab;         /* owned, or NULL for the reason in no_vocab */
    char no_vocab[VKLM_ERROR_TEXT_SIZE];
    size_t longest_text;       /* of a token, in bytes */
    vklm_sampling recommended; /* by the file; zeros where it says nothing */
    uint32_t threads;          /* that a load may use, the caller's included */
    vki_pipelines pipelines;
    vki_kernels kernels;
    vki_plan plan;             /* scratch for recording */
    vki_queue queue;
    vki_activations prefill, decode;
    uint32_t chunk_rows;
    vki_kv_pool kv_pools[2];   /* by vklm_kv_type */
    bool kv_loose;             /* pages that nobody holds are to go back to the device, once it has finished with them */
    vki_pool logits_pool;
    vki_span logits;           /* on the device: [VKI_MAX_BATCH][V] of a step, [V] of a prompt's last token */
    vki_buffer host_logits;    /* [VKI_MAX_BATCH] of a step, [VKI_LOGIT_ROWS] of a prompt; written by the head itself */
    vki_buffer ring;           /* u32 [VKI_RING_STEPS][VKI_MAX_BATCH] of steps; as much again of prompts */
    vki_recording recording;   /* of the chunk or logits group under way */
    vki_decode_form *forms;    /* owned */
    size_t n_forms, forms_capacity;
    vki_job job;
    vki_batch batch;
    vki_flight flights[VKI_MOST_AHEAD]; /* oldest first */
    uint32_t n_flights;
    bool step_was_last;        /* submitted */
    vklm_session *blamed;      /* whose work is done now; NULL: the batch's */
    vklm_session *sessions;    /* linked, borrowed */
    uint64_t turn;             /* counts batches and chunks */
    bool rows_fit;             /* decode and short prompts run vki_forward_rows */
    uint32_t ready[2];         /* by vklm_kv_type: 1: the pipelines of one session alone exist, 2: those of batches too */
    uint64_t model_print, vocab_print; /* what a saved session must agree with: save.c */
};

/* Bytes that vki_utf8_push may write for so many of a token. */
#define VKI_TEXT_ROOM(len) (3 * ((len) + 3))

typedef enum vki_phase { VKI_IDLE, VKI_PREFILL, VKI_DECODE } vki_phase;

/* An event, with its text held as an offset: the text buffer moves as it grows. DONE is not among them. */
typedef struct vki_queued_event {
    vklm_event event;
    size_t text_at;
} vki_queued_event;

/* The messages that a history begins with. */
typedef struct vki_chat {
    vklm_message *messages;    /* owned, with their contents; roles are literals */
    size_t n;
    size_t n_ids;              /* of the history that they are; behind lies the reply */
    size_t n_dropped;          /* messages that went before these, for want of room */
} vki_chat;

struct vklm_session {
    vklm_model *model;         /* borrowed */
    vklm_session *next;
    vklm_session_params made_with;
    uint32_t context, chunk;
    vklm_kv_type kv_type;
    bool ids_only;
    vki_kv kv;
    uint64_t busy_until;       /* the last submit that works for it, and so reads and writes the cache */
    uint64_t used_ns;          /* when it last began or ended a generation */
    vklm_session *spare;       /* owned: holds what set_ids replaced last; or NULL */

    vklm_token *ids;           /* owned: the history */
    size_t n_ids, ids_capacity;
    size_t n_cached;           /* of them in the cache */
    vki_chat chat;
    uint32_t n_untold_messages, n_untold_tokens; /* dropped, of which no event has told yet */

    vki_phase phase;
    uint64_t turn, missed;     /* its last one, and the last that it had to miss; who waits longest has the next */
    vklm_generate_params params;
    vki_sampler sampler;
    vki_buffer bias;           /* owned: the sampler's, as the device reads it; made when needed */
    vki_buffer token_counts;   /* owned: u32 [V], scratch of the device's penalties; likewise */
    vki_stops stops;
    uint64_t drawn_from;       /* tokens before this generation */
    uint32_t n_drawn;          /* tokens of this generation */
    atomic_bool cancelled;
    vki_utf8_stream utf8;

    vki_queued_event *events;  /* owned: a queue, first_event .. n_events */
    size_t n_events, first_event, events_capacity;
    char *text;                /* owned: texts of the queued events */
    size_t text_len, text_capacity;
    char *taken_text;          /* owned: of the event that was taken last */
    size_t taken_capacity;
    float *taken_logits;       /* owned: likewise, [V], where a generation wanted logits */
    /* The event behind the queue, or of kind NONE. It has a place of its own, so that a generation ends with
     * it also where the host has no memory left. */
    vklm_event done;
    char done_text[VKLM_ERROR_TEXT_SIZE];

    vklm_session_stats stats;
    uint64_t phase_began_ns;
    size_t pending_at_start;
};

/* ---- estimate.c ---- */
/* OUT_OF_DEVICE_MEMORY, with what would help, where the model and the sessions that are expected do not fit. */
vklm_status vki_model_check_room(const vklm_device *device, const vki_gguf *gguf, const vklm_model_params *params,
                                 vklm_error *error);

/* ---- load.c ---- */
/* The caller's params as far as they go, checked, and the file that they name. */
vklm_status vki_model_params(const vklm_model_params *params, vklm_error *error, vklm_model_params *own, vki_input *input);
/* All device memory that a model takes but its weights'; and, giving back, theirs too. It runs on a device that only
 * counts as well: memory that the host sees may be written, nothing may be submitted or compiled. */
vklm_status vki_model_take_memory(vklm_model *model, vklm_error *error);
void vki_model_give_memory(vklm_model *model);
/* Makes the pools of KV pages anew; nothing is taken from them. */
void vki_model_make_kv_pools(vklm_model *model);
/* Makes every pipeline that a session, or several at once, will need and that is not there yet. */
vklm_status vki_model_prepare(vklm_model *model, bool kv_f32, bool batches, vklm_error *error);

/* The end of a public call that took the lock. */
static inline vklm_status vki_unlock(vklm_model *model, vklm_status status)
{
    vki_mutex_unlock(&model->lock);
    return status;
}

/* ---- step.c: with the lock held, which a wait for the device gives back meanwhile ---- */
vklm_status vki_model_step(vklm_model *model, uint64_t budget_ns, vklm_error *error);
vklm_status vki_model_sleep(vklm_model *model, uint64_t value, uint64_t timeout_ns, vklm_error *error);
/* A submit of `count` units for the job or the batch; ends: the last of its step. */
vklm_status vki_model_submit(vklm_model *model, const vki_unit *units, size_t count, bool decode, bool ends,
                             vklm_error *error);
/* Of these units as many as there is room for; 0 where that is none. */
size_t vki_room_fit(const vklm_model *model, const vki_room *room, const vki_unit *units, size_t count);
/* Of the sessions with `phase` that are not cancelled, the one that waits longest; NULL: none. */
vklm_session *vki_next_turn(const vklm_model *model, vki_phase phase);

/* Waits for the oldest submit, if there is one. */
vklm_status vki_model_wait(vklm_model *model, uint64_t timeout_ns, vklm_error *error);
bool vki_is_generating(const vklm_model *model);

/* ---- session.c ---- */
/* Fills *own and the session's settings from params; INVALID_ARGUMENT names the value that is out of range. */
vklm_status vki_session_read_params(vklm_session *session, const vklm_session_params *params, vklm_error *error,
                                    vklm_session_params *own);
/* batches: it will take steps together with others. */
vklm_status vki_session_create(vklm_model *model, const vklm_session_params *params, bool batches, vklm_error *error,
                               vklm_session **session_out);
/* All device memory that a session begins with, of its model, context and kv_type; on a device that only counts, too. */
vklm_status vki_session_take_memory(vklm_session *session, vklm_error *error);
/* Waits until no submit in flight works for the session: its cache may then change. Other threads may have called
 * meanwhile, so it is the first thing that a call does. */
vklm_status vki_session_settle(vklm_session *session, vklm_error *error);
/* What is submitted for it drains, and nothing more is. */
void vki_session_leave(vklm_session *session);
bool vki_session_cancelled(const vklm_session *session);
/* A token was drawn: history, text, event, and the end where it is one. On failure nothing has changed. */
vklm_status vki_session_accept(vklm_session *session, vklm_token id, vklm_error *error);
/* The DONE event; the session is idle again, and what works for it drains. */
void vki_session_finish(vklm_session *session, vklm_done_reason reason);
void vki_session_fail(vklm_session *session, const vklm_error *failure);

/* How many of the ids the session has cached. */
size_t vki_cached_prefix(const vklm_session *session, const vklm_token *ids, size_t n);
/* Makes these ids the history, with as much of the cache as still holds; returns how many of them that is. There
 * is room for n. */
size_t vki_history_put(vklm_session *session, const vklm_token *ids, size_t n);
/* The logits of the last token are needed: it is digested again where the cache holds all. */
void vki_history_leave_last(vklm_session *session);
vklm_status vki_history_grow(vklm_session *session, size_t n, vklm_error *error);
/* Ids that are to follow the first n_kept of an idle session's history. */
vklm_status vki_history_check(const vklm_session *session, size_t n_kept, const vklm_token *ids, size_t n,
                              vklm_error *error);

/* ---- events.c ---- */
/* Queues an event without text. */
vklm_status vki_session_event(vklm_session *session, const vklm_event *event, vklm_error *error);
/* The token that is next in the history; as much of its text goes with it as makes whole characters and cannot become
 * a stop string. *stop: which one it completes, or -1. */
vklm_status vki_session_token_event(vklm_session *session, vklm_token id, const vki_string *text, vklm_error *error,
                                    int32_t *stop);
/* Whether LOGITS events of any session wait to be taken: host_logits, which they point to, must not be
 * written. */
bool vki_logits_wait(const vklm_model *model);

/* ---- cache.c ---- */
/* vki_kv_reserve; where the device has no memory left, idle sessions lose their caches to this one. */
vklm_status vki_session_reserve(vklm_session *session, uint32_t n_positions, vklm_error *error);
/* Takes over cached pages of another session that begins with more of the history, if there is one, and before that
 * keeps what the session has cached beyond `common` where it was asked to. */
void vki_cache_borrow(vklm_session *session, const vklm_token *ids, size_t n);
/* Gives pages that nobody holds back to the device, now or once it has finished with them. */
void vki_cache_return(vklm_model *model);

/* ---- save.c ---- */
/* model_print and vocab_print. */
vklm_status vki_model_fingerprint(vklm_model *model, const vki_gguf *gguf, vklm_error *error);

/* ---- conversation.c ---- */
void vki_chat_free(vki_chat *chat, const vki_host *host);
vklm_status vki_chat_copy(const vklm_message *messages, size_t n, const vki_host *host, vklm_error *error,
                          vki_chat *chat);
/* The context's end in a generation: drops what the session's policy says and has the rest digested, or ends it. */
vklm_status vki_session_overflow(vklm_session *session, vklm_error *error);

/* ---- prefill.c: the job ---- */
typedef struct vki_chunk {
    bool kv_f32;
    uint32_t depth, rows, n_out; /* keys before it, rows, the last of them whose logits are wanted */
} vki_chunk;
/* A place in the cache and the state, in rows of the activations from `first` on, of the first `rows` pending ids. */
vklm_status vki_rows_place(vklm_session *session, vki_activations *activations, uint32_t first, uint32_t rows,
                           vklm_error *error);
/* The plan of a chunk's layers; and, added to model->plan, of the logits of `group` of its rows from `row` on:
 * on_device: the device draws from them, else they go to the host. */
vklm_status vki_chunk_plan(vklm_model *model, const vki_chunk *chunk, vklm_error *error);
vklm_status vki_logits_plan(vklm_model *model, const vki_chunk *chunk, uint32_t row, uint32_t group, bool on_device,
                            vklm_error *error);
/* Begins a chunk where a session waits for one, or the logits that are due: records it. room: what it may take, for
 * the size of chunk and units. */
vklm_status vki_job_begin(vklm_model *model, const vki_room *room, vklm_error *error);
bool vki_job_has_more(const vklm_model *model);
vklm_status vki_job_submit(vklm_model *model, const vki_room *room, vklm_error *error, bool *submitted);
/* The oldest submit has finished. */
vklm_status vki_job_take(vklm_model *model, vklm_error *error);

/* ---- decode.c: the batch ---- */
/* What one decode step is made of: rows that see up to `keys` keys. */
typedef struct vki_step {
    uint32_t rows, keys;
    bool kv_f32, on_device;
} vki_step;
vklm_status vki_step_plan(vklm_model *model, const vki_step *step, vklm_error *error);
void vki_form_free(vki_decode_form *form);
bool vki_batch_has(const vklm_model *model, const vklm_session *session);
/* Composes the batch anew where that is due and nothing of it is in flight. */
vklm_status vki_batch_begin(vklm_model *model, vklm_error *error);
bool vki_batch_has_more(const vklm_model *model);
vklm_status vki_batch_submit(vklm_model *model, const vki_room *room, vklm_error *error, bool *submitted);
/* The oldest submit has finished; `ends`: and with it a step. */
vklm_status vki_batch_take(vklm_model *model, bool ends, vklm_error *error);

/* ---- draw.c ---- */
/* Nobody wants logits. The sessions of a batch agree in this. */
bool vki_session_device_draws(const vklm_session *session);
/* What that takes behind the cache's page table; a bias and penalties take more. */
uint64_t vki_sampling_bytes(const vklm_session *session);
/* How the device is to draw the tokens behind the history: the address for vki_state_sampling. Nothing in flight works
 * for the session. */
vklm_status vki_session_sampling(vklm_session *session, vklm_error *error, uint64_t *address);
/* Logits for the host: row `row` of the last step, or of the prompt's group. */
const float *vki_host_logits(const vklm_model *model, bool prompt, uint32_t row);
/* Draws from them and accepts. */
vklm_status vki_draw(vklm_session *session, bool prompt, uint32_t row, vklm_error *error);

#endif
