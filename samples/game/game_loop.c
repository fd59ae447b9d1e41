/* game_loop.c - see game_loop.h.
 *
 * A frame: the model gets its budget, the talk takes what the sessions have to tell, the canvas is filled, and the
 * scene goes to the GPU behind the model's slice. Nothing waits for the model. Without a window each frame also
 * waits for its own picture, so that its time is all that it cost.
 */
#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#endif
#include "game_loop.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include <GLFW/glfw3.h>

#include "game_png.h"
#include "game_sparks.h"
#include "game_window.h"

/* ---- Opening and closing ---------------------------------------------------------------------------- */

static bool open_model(game *game)
{
    const game_options *options = &game->options;
    if (options->no_model) return true;
    if (!model_start(&game->model, &game->gpu, options->model_path, (uint32_t)options->threads)) return false;
    if (!options->headless) return true; /* the frames show how far it is */
    model_await(&game->model);
    model_poll(&game->model);
    if (game->model.state != MODEL_READY || !talk_use_model(&game->talk, game->model.model)) return false;
    while (game->talk.phase == TALK_WAKING && game->model.state == MODEL_READY) {
        model_work(&game->model, 50);
        talk_update(&game->talk, 0);
    }
    return game->model.state == MODEL_READY && game->talk.model;
}

static void open_talk(game *game)
{
    const game_options *options = &game->options;
    const bool chinese = text_has_chinese(game->text) && options->language != 1;
    /* A software device is some hundred times slower than a GPU: so are the pieces of a pass. */
    const bool software = game->gpu.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    const talk_options talk = {.pause = options->pause,
                               .replies = (int)options->replies,
                               .max_tokens = (uint32_t)options->max_tokens,
                               .chunk = options->chunk ? (uint32_t)options->chunk : software ? 8 : 128,
                               .seed = (uint64_t)options->seed,
                               .english = options->language != 2 || !chinese,
                               .chinese = chinese,
                               .verbose = options->verbose};
    talk_begin(&game->talk, &talk);
}

bool game_open(game *game, const game_options *options)
{
    memset(game, 0, sizeof *game);
    game->options = *options;
    game->panel.budget_ms = options->budget_ms;
    game->text = text_open(options->font, options->font_chinese);
    if (!game->text) return false;
    if (!options->headless && !window_open(game)) return false;
    const gpu_options gpu = {options->device, game->window != NULL, !options->no_model, options->validate};
    if (!gpu_create(&game->gpu, &gpu)) return false;
    open_talk(game);
    const VkExtent2D size = {options->width, options->height};
    const bool target = game->window ? target_open_window(&game->target, &game->gpu, game->window)
                                     : target_open_offscreen(&game->target, &game->gpu, size);
    return target && renderer_create(&game->renderer, &game->gpu, game->target.format, game->window != NULL) &&
           target_build(&game->target, game->renderer.pass) && open_model(game);
}

void game_close(game *game)
{
    talk_end(&game->talk);
    model_close(&game->model);
    if (game->gpu.device) {
        gpu_wait(&game->gpu);
        target_close(&game->target);
        renderer_destroy(&game->renderer);
    }
    gpu_destroy(&game->gpu);
    window_close(game);
    text_close(game->text);
    graph_free(&game->graph);
}

/* ---- A frame ---------------------------------------------------------------------------------------- */

static void advance(game *game, double seconds)
{
    game->time += seconds;
    if (model_poll(&game->model) && game->model.state == MODEL_READY &&
        !talk_use_model(&game->talk, game->model.model))
        game->model.state = MODEL_NONE;
    model_step(&game->model, game->panel.budget_ms);
    talk_update(&game->talk, seconds);
}

static scene describe_scene(const game *game)
{
    const talk *talk = &game->talk;
    const float width = (float)game->target.size.width, height = (float)game->target.size.height;
    const float syllables = 0.55f + 0.45f * sinf((float)game->time * 17);
    scene scene = {.size = {width, height}, .time = (float)game->time, .layers = (int32_t)game->options.layers};
    for (int i = 0; i < SPEAKERS; i++) {
        scene.talk[i] = talk->mouths[i] * syllables;
        scene.look[i] = talk->speaker == i ? 0 : 1;
    }
    return scene;
}

static bool draw(game *game, uint32_t image, bool keep)
{
    const scene scene = describe_scene(game);
    const float width = scene.size[0], height = scene.size[1];
    text_begin_frame(game->text);
    game->canvas.n_shapes = 0;
    sparks_draw(&game->canvas, game->time, width, height);
    bubble_draw(&game->talk, &game->canvas, game->text, width, height);
    panel_draw(&game->panel, &game->graph, &game->talk, &game->model, &game->canvas, game->text, width, height);
    const renderer_frame frame = {&scene, &game->canvas, text_take_change(game->text), keep};
    if (!renderer_draw(&game->renderer, &game->target, image, &frame)) return false;
    game->frame++;
    return game->window ? target_present(&game->target, image) : renderer_finish(&game->renderer);
}

static bool is_picture(const char *path)
{
    const size_t len = strlen(path);
    return len > 4 && strcmp(path + len - 4, ".png") == 0;
}

static bool is_over(const game *game)
{
    if (game->window && glfwWindowShouldClose(game->window)) return true;
    if (game->options.tokens > 0 && game->talk.n_tokens >= (uint64_t)game->options.tokens) return true;
    return game->options.frames > 0 && game->frame >= (uint64_t)game->options.frames;
}

/* Whether this frame's picture goes to a file: the last one, or each where --out is a folder. */
static bool is_kept(const game *game)
{
    const game_options *options = &game->options;
    if (!options->headless || !options->out) return false;
    if (!is_picture(options->out)) return true;
    return game->frame + 1 == (uint64_t)options->frames || is_over(game);
}

static bool save(const game *game)
{
    char path[1024];
    const char *out = game->options.out;
    int len = snprintf(path, sizeof path, "%s", out);
    if (!is_picture(out))
        len = snprintf(path, sizeof path, "%s/frame-%05llu.png", out, (unsigned long long)game->frame);
    if (len < 0 || (size_t)len >= sizeof path) return gpu_fail("the name of %s is too long", out);
    return png_save(path, game->target.size.width, game->target.size.height, game->target.pixels.mapped);
}

static void sleep_ns(uint64_t ns)
{
    const struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    nanosleep(&pause, NULL);
}

/* Draws a frame, or leaves it out where the window shows none. */
static bool run_frame(game *game, double seconds, uint64_t start)
{
    uint32_t image = 0;
    if (!renderer_begin(&game->renderer)) return false;
    const target_state state = target_acquire(&game->target, renderer_ready(&game->renderer), &image);
    if (state == TARGET_FAILED) return false;
    advance(game, seconds);
    if (state == TARGET_NOT_NOW) {
        sleep_ns(10000000);
        return true;
    }
    const bool keep = is_kept(game);
    if (!draw(game, image, keep)) return false;
    graph_add(&game->graph, (frame_time){(float)((double)(clock_ns() - start) * 1e-6), (float)game->renderer.gpu_ms});
    return !keep || save(game);
}

bool game_run(game *game)
{
    const double fps = game->options.fps;
    uint64_t last = clock_ns();
    clock_t cpu_began = clock();
    while (!is_over(game)) {
        if (game->frame == (uint64_t)game->options.warmup) cpu_began = clock();
        if (game->window) window_input(game);
        const uint64_t start = clock_ns();
        /* Without a window the scene's time is that of frames at the wanted rate, so that pictures repeat. */
        const double seconds = game->window ? (double)(start - last) * 1e-9 : 1 / (fps > 0 ? fps : 30);
        last = start;
        if (!run_frame(game, seconds < 0.2 ? seconds : 0.2, start)) return false;
        const uint64_t spent = clock_ns() - start, wanted = fps > 0 ? (uint64_t)(1e9 / fps) : 0;
        if (spent < wanted) sleep_ns(wanted - spent);
    }
    game->cpu_ms = (double)(clock() - cpu_began) * 1e3 / CLOCKS_PER_SEC;
    return true;
}

/* ---- The report ------------------------------------------------------------------------------------- */

void game_report(const game *game)
{
    const game_options *options = &game->options;
    const size_t first = (size_t)options->warmup < game->graph.n_times ? (size_t)options->warmup : 0;
    const double p50 = graph_percentile(&game->graph, first, 0.5), p99 = graph_percentile(&game->graph, first, 0.99);
    const frame_time mean = graph_mean(&game->graph, first);
    const double n_frames = (double)(game->graph.n_times - first), scene = n_frames * (double)mean.scene_ms;
    const char *name = options->no_model ? "none" : game->model.info.name;
    const char *format =
        options->json ? "{\"device\": \"%s\", \"size\": \"%ux%u\", \"model\": \"%s\", \"budget_ms\": %.1f, \"frames\": "
                        "%.0f, \"p50_ms\": %.2f, \"p99_ms\": %.2f, \"scene_ms\": %.1f, \"rest_ms\": %.1f, "
                        "\"cpu_ms\": %.1f, \"tokens\": %llu}\n"
                      : "| %s | %ux%u | %s | budget %.1f ms | %.0f frames | p50 %.2f ms | p99 %.2f ms | scene %.1f ms | "
                        "model and the rest %.1f ms | processors %.1f ms | %llu tokens |\n";
    printf(format, game->gpu.properties.deviceName, game->target.size.width, game->target.size.height, name,
           options->no_model ? 0.0 : options->budget_ms, n_frames, p50, p99, scene,
           n_frames * (double)mean.frame_ms - scene, game->cpu_ms, (unsigned long long)game->talk.n_tokens);
}
