/* desktop_model.h - the model beside the window: loaded on a thread of its own, then advanced a little at each turn of
 * the event loop.
 *
 * All functions belong to the event loop's thread and none blocks, save model_close, which waits for what the device
 * or the loader is doing at that moment. What goes wrong is said in the talk.
 */
#ifndef DESKTOP_MODEL_H
#define DESKTOP_MODEL_H

#include <SDL.h>

#include "desktop_talk.h"
#include "sample_setup.h"

typedef enum model_state {
    MODEL_NONE,    /* not loaded: stopped, or for a reason that was said */
    MODEL_LOADING,
    MODEL_READY,
    MODEL_READING, /* the prompt */
    MODEL_WRITING, /* the reply */
} model_state;

typedef struct model {
    sample_setup *setup; /* borrowed; while MODEL_LOADING it belongs to the loader */
    uint32_t context;    /* of the session; 0: the default */
    vklm_generate_params generate;
    model_state state;
    bool failed; /* the last thing that was asked for did not work */
    vklm_session *session;
    vklm_session_stats stats; /* of the session, when last looked at */
    uint32_t n_done, n_total; /* tokens of the prompt while MODEL_READING */
    /* Shared with the loader. */
    SDL_Thread *loader;
    SDL_atomic_t permille, cancelled, loaded;
    vklm_status load_status;
} model;

/* Begins to load setup->model_path; what was loaded before goes. */
void model_load(model *m, talk *t);

/* Advances what is going on. True where something changed that the window shows. */
bool model_turn(model *m, talk *t);

/* Begins a reply to the last message of the user. Needs MODEL_READY. */
void model_ask(model *m, talk *t);

/* Asks what is going on to stop: a load, the reading of a prompt, a reply. */
void model_stop(model *m);

/* The talk begins anew; a reply to the old one is stopped. */
void model_start_anew(model *m);

void model_close(model *m);

/* Whether something is going on. */
bool model_is_busy(const model *m);

/* How much of the load or of the prompt is done, 0 to 1. */
double model_progress(const model *m);

#endif
