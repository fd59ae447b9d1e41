/* game_model.h - the model beside the renderer: it works on the renderer's device, which vklm is lent.
 *
 * Loading happens on a thread of the game's; everything else on the frame loop's. A frame gives the model a budget
 * and goes on: model_step never waits.
 */
#ifndef GAME_MODEL_H
#define GAME_MODEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "game_gpu.h"
#include "vklm/vklm.h"

typedef enum model_state {
    MODEL_NONE,    /* none was asked for */
    MODEL_LOADING,
    MODEL_READY,
    MODEL_FAILED,  /* error.text says why */
} model_state;

typedef struct game_model {
    model_state state;
    vklm_device *device;
    vklm_model *model;
    vklm_model_info info;
    vklm_error error;
    /* Of the thread that loads. */
    gpu *gpu;
    const char *path;
    uint32_t threads;
    pthread_t thread;
    bool thread_runs;
    atomic_int permille; /* loaded */
    atomic_bool cancel, loaded;
    vklm_status status;
} game_model;

/* Begins to load; the game_model must not move until model_close. False where no thread can be had. */
bool model_start(game_model *model, gpu *gpu, const char *path, uint32_t threads);

/* Looks whether the load has ended; never waits. True in the one call that finds it READY or FAILED. */
bool model_poll(game_model *model);

/* Waits for the load's end, with a bar on stderr. */
void model_await(game_model *model);

/* Gives the model budget_ms of GPU time; 0: none. Whatever it has to tell reaches its sessions as events. */
void model_step(game_model *model, double budget_ms);

/* For where nothing is drawn yet: the same, and waits for some of it to be done. */
void model_work(game_model *model, double budget_ms);

/* After the sessions were destroyed. Cancels a load under way. */
void model_close(game_model *model);

#endif
