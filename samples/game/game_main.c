/* game_main.c - vklm-game: a scene with its own Vulkan renderer, in which two characters talk through a model on the
 * same device. This file has the command line.
 */
#include <stdio.h>
#include <stdlib.h>

#include "game_loop.h"

static int parse(int argc, char **argv, game_options *options)
{
    const args_option rows[] = {
        {ARGS_HEADING, "The model", NULL, NULL, 0, 0, NULL},
        {ARGS_TEXT, "-m, --model", "FILE", &options->model_path, 0, 0, "The model, a GGUF file."},
        {ARGS_FLAG, "--no-model", NULL, &options->no_model, 0, 0, "The scene alone; the two read their script."},
        {ARGS_REAL, "--budget-ms", "MS", &options->budget_ms, 0, 1000,
         "GPU time for the model in each frame. 0: it stands still. Default: 4."},
        {ARGS_INTEGER, "--threads", "N", &options->threads, 0, 16,
         "Load with N threads. Default: one for each processor, at most 8."},
        {ARGS_INTEGER, "--max-tokens", "N", &options->max_tokens, 1, 400, "Of a reply. Default: 60."},
        {ARGS_INTEGER, "--chunk", "N", &options->chunk, 1, 512,
         "Prompt tokens digested at once: fewer keep closer to the budget. Default: 128, on software Vulkan 8."},
        {ARGS_INTEGER, "--replies", "N", &options->replies, 1, TALK_MOST_LINES - 1,
         "To an opening line of the script, before the next one. Default: 3."},
        {ARGS_INTEGER, "--seed", "N", &options->seed, 1, 1e15, "Of the replies. Default: 1."},
        {ARGS_CHOICE, "--language", "both|en|zh", &options->language, 0, 0, "Of the opening lines. Default: both."},
        {ARGS_FLAG, "-v, --verbose", NULL, &options->verbose, 0, 0, "Tell on stderr what the two say."},
        {ARGS_HEADING, "The scene", NULL, NULL, 0, 0, NULL},
        {ARGS_TEXT, "--size", "WxH", &options->size, 0, 0, "Of the picture, pixels. Default: 1280x720."},
        {ARGS_INTEGER, "--layers", "N", &options->layers, 0, 1000,
         "Sheets of northern lights: the GPU's work for a pixel. Default: 6."},
        {ARGS_REAL, "--fps", "N", &options->fps, 0, 1000,
         "At most so many frames a second. 0: as many as can be. Default: 60 in a window, else 0."},
        {ARGS_REAL, "--pause", "S", &options->pause, 0, 60,
         "Seconds between one line and the next; 0 also shows opening lines at once. Default: 1.5."},
        {ARGS_TEXT, "--font", "FILE", &options->font, 0, 0, "Default: DejaVu Sans, Noto Sans or the like."},
        {ARGS_TEXT, "--font-chinese", "FILE", &options->font_chinese, 0, 0,
         "Default: WenQuanYi Micro Hei, Noto Sans CJK or the like."},
        {ARGS_TEXT, "--device", "DEVICE", &options->device, 0, 0,
         "The GPU: its number or a part of its name. Default: discrete before integrated before software."},
        {ARGS_FLAG, "--validate", NULL, &options->validate, 0, 0,
         "Under Vulkan's validation layer, where that is installed; any message makes the exit code 1."},
        {ARGS_HEADING, "Without a window", NULL, NULL, 0, 0, NULL},
        {ARGS_FLAG, "--headless", NULL, &options->headless, 0, 0, "Draw without a display, and print a report."},
        {ARGS_INTEGER, "--frames", "N", &options->frames, 1, 1e6, "Leave after N frames. Headless default: 300."},
        {ARGS_INTEGER, "--tokens", "N", &options->tokens, 1, 1e6, "Leave when the model has made N tokens."},
        {ARGS_INTEGER, "--warmup", "N", &options->warmup, 0, 1e6,
         "Leave the first N frames out of the report. Default: 0."},
        {ARGS_TEXT, "--out", "PATH", &options->out, 0, 0,
         "Headless: FILE.png for the last frame, or a folder for all of them."},
        {ARGS_FLAG, "--json", NULL, &options->json, 0, 0, "The report as JSON instead of a row of Markdown."},
    };
    const args_program program = {
        .name = "vklm-game",
        .purpose = "two characters talk by a model beside a renderer",
        .synopsis = "-m MODEL [OPTION ...]",
        .about = "A scene with a Vulkan renderer of its own. The model works on the renderer's device, within a budget\n"
                 "of GPU time in each frame, and the frames never wait for it.\n",
        .options = rows,
        .n_options = sizeof rows / sizeof *rows,
        .after = "Keys: the mouse or the arrows set the budget, space stops the model, Escape leaves.\n",
    };
    return args_parse(&program, argc, argv);
}

static int complete(game_options *options)
{
    char rest = 0;
    if (!options->model_path && !options->no_model)
        return args_complain("vklm-game", "no model: give a GGUF file with -m FILE, or --no-model");
    if (options->model_path && options->no_model)
        return args_complain("vklm-game", "--model and --no-model do not go together");
    if (sscanf(options->size, "%ux%u%c", &options->width, &options->height, &rest) != 2 || options->width < 160 ||
        options->height < 90 || options->width > 8192 || options->height > 8192)
        return args_complain("vklm-game", "--size %s is no size like 1280x720, of 160x90 to 8192x8192", options->size);
    if (options->out && !options->headless)
        return args_complain("vklm-game", "--out is for --headless");
    if (options->fps < 0) options->fps = options->headless ? 0 : 60;
    if (options->headless && !options->frames) options->frames = 300;
    return ARGS_GO;
}

int main(int argc, char **argv)
{
    game_options options = {.size = "1280x720", .budget_ms = 4, .layers = 6, .max_tokens = 60, .replies = 3, .seed = 1,
                            .fps = -1, .pause = 1.5};
    int code = parse(argc, argv, &options);
    if (code == ARGS_GO) code = complete(&options);
    if (code != ARGS_GO) return code;

    game *game = must_realloc(NULL, sizeof *game);
    const bool good = game_open(game, &options) && game_run(game);
    if (good && options.headless) game_report(game);
    game_close(game);
    const bool clean = atomic_load(&game->gpu.n_messages) == 0;
    free(game);
    return good && clean ? 0 : 1;
}
