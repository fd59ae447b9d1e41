/* game_loop.h - the game: its parts, its frames, in a window or without one. */
#ifndef GAME_LOOP_H
#define GAME_LOOP_H

#include "game_bubble.h"
#include "game_panel.h"
#include "game_renderer.h"

typedef struct game_options {
    bool headless, no_model, validate, json, verbose;
    const char *size, *out, *device, *font, *font_chinese, *model_path;
    uint32_t width, height; /* of `size` */
    int64_t frames, tokens, warmup, layers, threads, max_tokens, replies, seed, chunk;
    double budget_ms, fps, pause;
    int language; /* both, English, Chinese */
} game_options;

typedef struct game {
    game_options options;
    struct GLFWwindow *window; /* NULL: headless */
    gpu gpu;
    target target;
    renderer renderer;
    text *text;
    canvas canvas;
    game_model model;
    talk talk;
    panel panel;
    graph graph;
    double time;         /* of the scene, seconds */
    double resume_ms;    /* the budget before the space bar stopped the model */
    double cpu_ms;       /* of the process behind the warm-up */
    uint64_t frame;      /* frames drawn */
} game;

/* Makes everything but the model, whose load begins. The game must not move. */
bool game_open(game *game, const game_options *options);

/* Runs until the window is closed or all frames are drawn. False where the game could not go on. */
bool game_run(game *game);

/* Prints a line on stdout. Over the frames behind the warm-up: the median and the 99th percentile of a frame's time;
 * how much of all of it the GPU drew the scene, and the rest, which is the model's slices and the host's own work; the
 * time of all processors, those of a software GPU included. Tokens are those of the whole run. Headless only. */
void game_report(const game *game);

void game_close(game *game);

#endif
